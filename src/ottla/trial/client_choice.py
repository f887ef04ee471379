"""Which program stands for `--client NAME` or `--command TEXT`, and what has to be installed for it.

Clients in Python run with the Python that runs ottla. The others are built on their first use by the tools of their own
language, into a folder of the user's cache: `client_build`.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec

from ottla.errors import UserMistake
from ottla.nearest import nearest_name
from ottla.trial.client_build import BUILDS, built_client
from ottla.trial.ledger import SideLedger
from ottla.trial.process_sender import ProcessSender
from ottla.trial.sender import Opening, SendingOrder

OTTLA = "ottla"
# The module that each library of Python is imported as.
_IN_PYTHON = {"confluent-kafka": "confluent_kafka", "aiokafka": "aiokafka", "kafka-python": "kafka"}
CLIENTS = (OTTLA, *_IN_PYTHON, *BUILDS)
"""All names that `--client` takes."""


def client_named(name: str, say: Callable[[str], None]) -> Opening | None:
    """What opens the client of this name, None for ottla's own producer; UserMistake says what it needs.

    `say` is told what takes long.
    """
    if name == OTTLA:
        return None
    if name in _IN_PYTHON:
        if find_spec(_IN_PYTHON[name]) is None:
            raise UserMistake(f"--client {name} needs the library {name}: pip install {name}")
        # -P: a file of the user's that has the name of a library is not taken for it.
        module = f"ottla.trial.clients.{name.replace('-', '_')}"
        return _opening([sys.executable, "-P", "-m", module])
    if name in BUILDS:
        return _opening(built_client(name, say))
    near = nearest_name(name, CLIENTS)
    hint = f" did you mean {near!r}?" if near is not None else ""
    raise UserMistake(
        f"there is no client {name!r};{hint} there are {', '.join(CLIENTS)}, and --command takes a program of yours"
    )


def client_by_command(text: str) -> Opening:
    """What opens the client that a command line starts; no shell reads it."""
    try:
        command = shlex.split(text)
    except ValueError as error:
        raise UserMistake(f"--command {text!r} cannot be read: {error}") from None
    if not command:
        raise UserMistake('--command is empty: give a program and its arguments, such as --command "python client.py"')
    return _opening(command)


def _opening(command: Sequence[str]) -> Opening:
    return partial(_open, list(command))


def _open(command: list[str], order: SendingOrder, ledger: SideLedger) -> ProcessSender:
    return ProcessSender(command, order, ledger)
