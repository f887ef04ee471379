"""pyarrow is an extra: who calls what needs it without having it is told so in one sentence."""

from __future__ import annotations

from ottla.errors import MissingExtra


def need_pyarrow(caller: str) -> None:
    """Load pyarrow, or raise MissingExtra naming `caller` and the command that installs it."""
    try:
        import pyarrow  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise MissingExtra(f"{caller} needs pyarrow, which is not installed: pip install 'ottla[arrow]'") from None
