"""pyarrow is an extra: without it, calls that need it raise MissingExtra, which names the command to install it."""

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
