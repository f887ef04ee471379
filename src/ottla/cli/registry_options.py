"""The options for the schema registry: its address, a user or token, and the certificates it may have.

A password or a token never stands on the command line, which everybody on the machine can read: it comes from a file or
from the environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ottla.cli.secret_file import read_secret_file
from ottla.errors import ConfigError, DeserializationError, RegistryError, UserMistake

if TYPE_CHECKING:
    from ottla.registry.client import RegistryClient

PASSWORD_VARIABLE = "OTTLA_REGISTRY_PASSWORD"
TOKEN_VARIABLE = "OTTLA_REGISTRY_TOKEN"

RegistryUrl = Annotated[
    str | None,
    typer.Option(
        "--registry",
        help="The schema registry's address, several with commas.",
        metavar="URL",
        envvar="OTTLA_REGISTRY",
        show_envvar=False,
    ),
]
RegistryUser = Annotated[
    str | None,
    typer.Option(
        "--registry-user",
        help="A user of the registry; the password is in the file of the next option, or in the environment variable "
        f"{PASSWORD_VARIABLE}.",
        metavar="NAME",
        envvar="OTTLA_REGISTRY_USER",
        show_envvar=False,
    ),
]
RegistryPasswordFile = Annotated[
    Path | None,
    typer.Option("--registry-password-file", help="A file whose one line is that password.", metavar="FILE"),
]
RegistryTokenFile = Annotated[
    Path | None,
    typer.Option(
        "--registry-token-file",
        help="A file whose one line is a token, in place of name and password; also in the environment variable "
        f"{TOKEN_VARIABLE}.",
        metavar="FILE",
    ),
]
RegistryCa = Annotated[
    Path | None,
    typer.Option(
        "--registry-ca",
        help="Certificates that may sign the registry's, in PEM; those of the system unless given.",
        metavar="FILE",
    ),
]

# What the registry's client calls a thing -> what it is called on the command line. The longer names come first.
URL_WORDS = (("schema.registry.url", "--registry"),)
_WORDS = (
    *URL_WORDS,
    ("basic.auth.user.info or bearer.auth.token", "--registry-user and its password, or --registry-token-file"),
    ("bearer.auth.token", "the token of --registry-token-file"),
    ("ssl.truststore.location", "--registry-ca"),
    ("register one first", "give one with --value-schema, or register one first"),
    ("give the schema to read as", "give the schema to read as with --value-schema"),
    ("give value_schema", "give one with --value-schema"),
    ("give a schema as value_schema", "give a schema with --value-schema"),
    ("ProtobufDecoder(time_unit='us') reads it", "write CSV or NDJSON"),
)


class RegistryAccess(NamedTuple):
    """The registry that the options name."""

    url: str
    user: str | None = None
    password_file: Path | None = None
    token_file: Path | None = None
    ca: Path | None = None

    def client(self) -> RegistryClient:
        """A client of it; UserMistake for options that do not go together."""
        from ottla.registry.client import RegistryClient

        settings = self._settings()
        try:
            return RegistryClient(self.url, settings)
        except ConfigError as error:
            raise ConfigError(_in_words(str(error), _WORDS)) from None

    def _settings(self) -> dict[str, Any]:
        # No program started from here inherits them.
        password, token = os.environ.pop(PASSWORD_VARIABLE, None), os.environ.pop(TOKEN_VARIABLE, None)
        settings: dict[str, Any] = {} if self.ca is None else {"ssl.truststore.location": str(self.ca)}
        if self.password_file is not None and self.user is None:
            raise UserMistake("--registry-password-file needs --registry-user: give the name, too")
        if self.token_file is not None:
            if self.user is not None:
                raise UserMistake("--registry-user and --registry-token-file exclude each other: give one of the two")
            token = _line(self.token_file, "--registry-token-file", "token")
        if self.user is not None:
            if ":" in self.user:
                raise UserMistake(
                    "--registry-user has a colon, which a name cannot have in HTTP: give the name alone, and the "
                    "password by --registry-password-file"
                )
            if self.password_file is not None:
                password = _line(self.password_file, "--registry-password-file", "password")
            if password is None:
                raise UserMistake(
                    f"--registry-user {self.user} needs a password: give --registry-password-file FILE, or set "
                    f"{PASSWORD_VARIABLE}"
                )
            return settings | {"basic.auth.user.info": f"{self.user}:{password}"}
        return settings if token is None else settings | {"bearer.auth.token": token.strip()}


def _line(path: Path, option: str, what: str) -> str:
    lines = read_secret_file(path, option, f"takes one line, the {what}").splitlines()
    if len(lines) != 1 or not lines[0]:
        raise UserMistake(f"{path} has {len(lines)} lines: {option} takes one line, the {what}")
    return lines[0]


@contextmanager
def told_as_options(words: tuple[tuple[str, str], ...] = _WORDS) -> Iterator[None]:
    """Let errors name options in place of settings of the registry's client and of decoders."""
    try:
        yield
    except (RegistryError, DeserializationError) as error:
        error.args = (_in_words(str(error), words),)
        raise
    except ConfigError as error:
        # Other clients have settings of the same names.
        error.args = (_in_words(str(error), URL_WORDS),)
        raise


def _in_words(told: str, words: tuple[tuple[str, str], ...]) -> str:
    for setting, option in words:
        told = told.replace(setting, option)
    return told
