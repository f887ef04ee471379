"""`sasl.jaas.config`: the line in which Java clients give user and password, read as it stands in a properties file.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="ada" password="lovelace";

One entry: a login module, a control flag, options, a semicolon. Of the options, PLAIN and SCRAM use `username` and
`password`. OAUTHBEARER uses those of a token endpoint, extensions, and those of an unsecured token (KIP-255).
Invariant: errors do not quote the line, because it holds a password.
"""

from __future__ import annotations

import re

from ottla.errors import ConfigError

_MODULES = {
    "PlainLoginModule": "PLAIN",
    "ScramLoginModule": "SCRAM",
    "OAuthBearerLoginModule": "OAUTHBEARER",
}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([=;])|([^\s=;"]+))', re.DOTALL)
_EXAMPLE = (
    "expected is one line such as org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="..." password="...";'
)


class JaasConfig:
    """A login module's short name, its mechanism ("SCRAM" for both SCRAM mechanisms), and its options."""

    __slots__ = ("family", "module", "options")

    def __init__(self, module: str, family: str, options: dict[str, str]) -> None:
        self.module = module
        self.family = family
        self.options = options


def parse_jaas(text: str) -> JaasConfig:
    """Read one entry; `ConfigError` says what is wrong with it and does not quote it."""
    words = _words(text)
    if len(words) < 3 or words[-1] != (";", True):
        raise ConfigError(f"sasl.jaas.config does not end with a semicolon or is too short; {_EXAMPLE}")
    if words.count((";", True)) != 1:
        raise ConfigError(f"sasl.jaas.config holds several entries; a client has one: {_EXAMPLE}")
    module = words[0][0].rsplit(".", 1)[-1]
    family = _MODULES.get(module)
    if family is None:
        raise ConfigError(
            "sasl.jaas.config names a login module that ottla does not have; it has "
            f"{', '.join(_MODULES)} (Kerberos is not supported)."
        )
    if words[1][0].lower() not in _FLAGS:
        raise ConfigError(f"sasl.jaas.config lacks the word required behind {module}; {_EXAMPLE}")
    return JaasConfig(module, family, _options(words[2:-1], module))


def _options(words: list[tuple[str, bool]], module: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for place in range(0, len(words), 3):
        group = words[place : place + 3]
        if len(group) < 3 or group[0][1] or group[1] != ("=", True) or group[2][1]:
            raise ConfigError(f'sasl.jaas.config: the options of {module} must read name="value"; {_EXAMPLE}')
        options[group[0][0]] = group[2][0]
    return options


def _words(text: str) -> list[tuple[str, bool]]:
    """Return (word, whether it is = or ;) pairs, without quotation marks and the backslashes between them."""
    words: list[tuple[str, bool]] = []
    place, end = 0, len(text.rstrip())
    while place < end:
        found = _TOKEN.match(text, place)
        if found is None:
            raise ConfigError(f"sasl.jaas.config has a quotation mark that is never closed; {_EXAMPLE}")
        quoted, sign, plain = found.groups()
        if sign:
            words.append((sign, True))
        else:
            words.append((plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL), False))
        place = found.end()
    return words
