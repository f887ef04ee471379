"""The command line: one file per command, nothing decided here.

`main` stays light (`ottla --version` loads neither typer nor rich) and is the one place where errors become words: a
mistake of the user's is one sentence on stderr and exit status 2, Ctrl+C is 130, SIGTERM 143, a reader of the output
that has seen enough 141, and only what nobody expected shows a traceback.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress

from ottla.cli.characters import use_look_alikes
from ottla.cli.signals import Ended, ending_in_order
from ottla.errors import KafkaError, NotKafka, OttlaError, RegistryError, Unreachable, UserMistake
from ottla.printable import printable

FAILED = 1
USAGE = 2
INTERRUPTED = 130
# As a shell reports a program that SIGPIPE has ended.
PIPE_CLOSED = 141
# Errors whose cause lies in what was given: a file, a folder, an address, a topic.
_GIVEN = (UserMistake, Unreachable, NotKafka, KafkaError, RegistryError)
# Which extra brings a module, for those who installed less than a command needs.
_EXTRAS = {
    "typer": "cli",
    "rich": "cli",
    "pyarrow": "arrow",
    "numpy": "arrow",
    "pyspark": "run",
    "pandas": "run",
    "starlette": "console",
    "uvicorn": "console",
    "anyio": "console",
}
# Errors of the operating system whose own message says enough.
_OUTSIDE = {
    errno.EACCES,
    errno.EADDRINUSE,
    errno.EDQUOT,
    errno.EIO,
    errno.EISDIR,
    errno.ELOOP,
    errno.EMFILE,
    errno.ENAMETOOLONG,
    errno.ENFILE,
    errno.ENOENT,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.ENXIO,
    errno.EPERM,
    errno.EROFS,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (`sys.argv` by default) and return its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    _open_closed_streams()
    use_look_alikes()
    try:
        if given in (["--version"], ["-V"]):
            return _version()
        with ending_in_order():
            return _run(given)
    except KeyboardInterrupt:
        return _say_at_once("interrupted", INTERRUPTED)
    except SystemExit as end:
        # So click and rich end where their output is not read any more.
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        _show_no_more()
        return PIPE_CLOSED
    except Ended as ended:
        return _say_at_once(ended.words, ended.status)
    except OttlaError as error:
        return _say(str(error), USAGE if isinstance(error, _GIVEN) else FAILED)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").split(".")[0])
        if extra is None:
            raise
        return _say(f"this command needs {error.name}, which is not installed: pip install 'ottla[{extra}]'", USAGE)
    except BrokenPipeError:
        _show_no_more()
        return PIPE_CLOSED
    except OSError as error:
        if error.errno not in _OUTSIDE:
            raise
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"{where}{error.strerror or error}", USAGE)


def _open_closed_streams() -> None:
    """Let stdin, stdout and stderr be empty where they were closed at the start (`<&-`, `>&-`).

    Otherwise the next file or socket would get their number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _version() -> int:
    from ottla import __version__

    sys.stdout.write(f"ottla {__version__}\n")
    sys.stdout.flush()
    return 0


def _run(arguments: list[str]) -> int:
    import logging

    from ottla.cli.app import app_for

    # What matters is said in sentences; a broker whose requests are lost on purpose has much to log besides, and so
    # has the bridge to a Java that is gone, which logs to the root: without a handler there it would print tracebacks.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        status = app_for(arguments)(arguments, prog_name="ottla", standalone_mode=False)
    except Exception as error:
        # Usage errors are click's, whose classes moved from one typer to the next; this method they always have.
        if hasattr(error, "format_message"):
            return _usage_error(error)
        raise
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    return status if isinstance(status, int) else 0


def _usage_error(error: Exception) -> int:
    """What typer found wrong with the command line; without a command it is the help that was printed."""
    sentence = str(getattr(error, "format_message", lambda: error)()).rstrip(".")
    if not sentence:
        return USAGE
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "ottla"
    # Click's own advice is a question: "Did you mean ...?"
    joined = " See" if sentence.endswith("?") else "; see"
    return _say(f"{sentence[:1].lower()}{sentence[1:]}{joined} {command} --help", USAGE)


def _say(sentence: str, status: int) -> int:
    """One sentence on stderr, in one line."""
    line = printable(" ".join(sentence.split()))
    try:
        sys.stdout.flush()
    except OSError:
        # A stdout that is closed must not keep the sentence from stderr.
        _show_no_more()
    sys.stderr.write(f"ottla: {line}\n")
    return status


def _say_at_once(sentence: str, status: int) -> int:
    """The same after an interruption: no waiting for a reader of stdout, which may be gone, or not read (`less`)."""
    with suppress(OSError):  # a stdout that is no file of the system's
        if not stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode):
            _show_no_more()
    return _say(sentence, status)


def _show_no_more() -> None:
    """What is still held back for stdout goes nowhere; otherwise it would fail, or wait, once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
