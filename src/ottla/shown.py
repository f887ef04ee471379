"""How errors show a value that a user gave."""

from __future__ import annotations

from typing import Any

# No name of a cipher suite is longer than this.
_SHORT_WORD = 50


def shown(value: Any, *, is_private: bool = True) -> str:
    """The text of a value for an error: a number, or text in quotes; of another value its type, of a secret "[hidden]".

    Text may be secret if it has "@", "=" or a line's end in it; with `is_private` also if it is long or has several
    words. Passwords, keys, addresses with a password and whole configurations are easily given in the wrong place.
    """
    if isinstance(value, str):
        may_be_secret = is_private and (len(value) > _SHORT_WORD or len(value.split()) > 1)
        if may_be_secret or any(sign in value for sign in "@=\n"):
            return "[hidden]"
        return f"{value!r:.60}"
    # Python refuses to write down numbers of thousands of digits.
    is_number = isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= 128)
    return repr(value) if is_number else f"<{type(value).__name__}>"
