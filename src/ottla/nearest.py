"""What somebody may have meant by a name that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable


def nearest_name(name: str, known: Iterable[str], *, alike: float = 0.6) -> str | None:
    """Return the known name that looks most like this one, in either case; None where none is `alike` (0 to 1)."""
    import difflib  # only when something is wrong already

    names = {known_name.lower(): known_name for known_name in known}
    found = difflib.get_close_matches(name.lower(), list(names), n=1, cutoff=alike)
    return names[found[0]] if found else None
