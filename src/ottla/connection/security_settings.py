"""How a client authenticates, and which brokers it trusts: `security.protocol`, `ssl.*`, `sasl.*`, checked together.

Names and meanings are those of Kafka's Java clients. Keys and certificates are files (PEM, JKS, PKCS12) or PEM text
(KIP-651). `sasl.username` and `sasl.password` are librdkafka's, and shorter than `sasl.jaas.config`. The settings of
OAUTHBEARER are in `oauth_settings.py`; `java_settings.py` says what to do instead of Java's other settings.

Invariants: nothing here reads a file (client/tls.py does). No `repr`, and no error's text, has a password, a key or a
token in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from ottla.connection.jaas import JaasConfig, parse_jaas
from ottla.connection.oauth_settings import MSK_PROVIDER, OAUTH_SETTINGS, PROVIDER, TokenSource
from ottla.connection.setting import Setting, shown
from ottla.errors import ConfigError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PLAIN = "PLAIN"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = (PLAIN, *SCRAM, OAUTHBEARER)
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")

# The longest path that is taken; a key given here by mistake, without its first line, is nearly always longer.
_PATH_MAX = 1024


def _read_words(name: str, allowed: tuple[str, ...]) -> Callable[[Any], tuple[str, ...]]:
    def read(value: Any) -> tuple[str, ...]:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
            raise ConfigError(f"{name}={shown(value)} is not a list of words, or words separated by commas.")
        words = tuple(part.strip() for part in parts if part.strip())
        wrong = [word for word in words if allowed and word not in allowed]
        if wrong:
            raise ConfigError(f"{name}: {shown(wrong[0])} is not known; allowed are {', '.join(allowed)}.")
        return words

    return read


def _is_encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _read_path(name: str, instead: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        path = os.fspath(value) if isinstance(value, os.PathLike) else value
        if not isinstance(path, str):
            raise ConfigError(f"{name}={shown(value)} is not the path of a file.")
        path = path.strip()
        if "-----BEGIN" in path:
            raise ConfigError(f"{name} is the text of a PEM file and not its path; such text belongs in {instead}.")
        if len(path) > _PATH_MAX or not _is_encodable(path) or any(sign in path for sign in "\0\r\n"):
            raise ConfigError(f"{name} cannot be a file's path: it is too long, or has a line's end or a zero in it.")
        return path

    return read


_MECHANISM = Setting(
    "sasl.mechanism",
    str,
    None,
    "How the client authenticates. Java's default is GSSAPI, which ottla does not have: it must be given for SASL.",
    allowed=MECHANISMS,
    any_case=True,
    group="Security",
)
_MECHANISMS_ELSEWHERE = {
    "GSSAPI": "is Kerberos, which ottla does not have; allowed are "
    f"{', '.join(MECHANISMS)}: have the brokers offer a listener for one of them, or for TLS certificates "
    "(security.protocol=SSL).",
    "AWS_MSK_IAM": f"is a mechanism of a Java library of Amazon's; the same brokers take sasl.mechanism={OAUTHBEARER} "
    f"with {PROVIDER}={MSK_PROVIDER} (pip install 'ottla[aws]').",
}


def _read_mechanism(value: Any) -> Any:
    word = value.strip().upper() if isinstance(value, str) else ""
    if word in _MECHANISMS_ELSEWHERE:
        raise ConfigError(f"sasl.mechanism={word} {_MECHANISMS_ELSEWHERE[word]}")
    return _MECHANISM.read(value)


SECURITY_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "security.protocol",
        str,
        "PLAINTEXT",
        "What the brokers' listener speaks: TLS (SSL), authentication (SASL_PLAINTEXT), both (SASL_SSL), or neither.",
        allowed=PROTOCOLS,
        any_case=True,
        group="Security",
    ),
    Setting(
        "ssl.truststore.location",
        str,
        None,
        "A file (PEM, JKS or PKCS12) with the CA certificates to trust; without it "
        "those that the operating system trusts.",
        takes="str | PathLike[str]",
        reads=_read_path("ssl.truststore.location", "ssl.truststore.certificates"),
        kip=651,
        group="Security",
    ),
    Setting(
        "ssl.truststore.type",
        str,
        "PEM",
        "The kind of truststore; without effect, since the file shows it itself.",
        allowed=("PEM", "JKS", "PKCS12"),
        any_case=True,
        kip=651,
        group="Security",
    ),
    Setting(
        "ssl.truststore.password",
        str,
        None,
        "What opens ssl.truststore.location where that is JKS or PKCS12.",
        secret=True,
        group="Security",
    ),
    Setting(
        "ssl.truststore.certificates",
        str,
        None,
        "The CA certificates to trust as PEM text, instead of ssl.truststore.location.",
        secret=True,
        kip=651,
        group="Security",
    ),
    Setting(
        "ssl.keystore.location",
        str,
        None,
        "A file (PEM, JKS or PKCS12) with the client's private key, its certificate, and the CA "
        "certificates that signed it.",
        takes="str | PathLike[str]",
        reads=_read_path("ssl.keystore.location", "ssl.keystore.key and ssl.keystore.certificate.chain"),
        kip=651,
        group="Security",
    ),
    Setting(
        "ssl.keystore.type",
        str,
        "PEM",
        "The kind of keystore; without effect, since the file shows it itself.",
        allowed=("PEM", "JKS", "PKCS12"),
        any_case=True,
        kip=651,
        group="Security",
    ),
    Setting(
        "ssl.keystore.password",
        str,
        None,
        "What opens ssl.keystore.location where that is JKS or PKCS12.",
        secret=True,
        group="Security",
    ),
    Setting(
        "ssl.keystore.certificate.chain",
        str,
        None,
        "The client's certificate and the CA certificates that signed it, as PEM text; needs ssl.keystore.key.",
        secret=True,
        kip=651,
        group="Security",
    ),
    Setting(
        "ssl.keystore.key",
        str,
        None,
        "The client's private key as PEM text; needs ssl.keystore.certificate.chain.",
        secret=True,
        kip=651,
        group="Security",
    ),
    Setting(
        "ssl.key.password",
        str,
        None,
        "The password of the client's private key, if it is encrypted; for JKS ssl.keystore.password unless given.",
        secret=True,
        group="Security",
    ),
    Setting(
        "ssl.endpoint.identification.algorithm",
        str,
        "https",
        "https checks that the certificate was made out to the broker's host name; empty leaves that out.",
        allowed=("https", ""),
        any_case=True,
        kip=294,
        group="Security",
    ),
    Setting(
        "ssl.protocol",
        str,
        "TLSv1.3",
        "The newest version of TLS to speak.",
        allowed=("TLSv1.3", "TLSv1.2", "TLS"),
        group="Security",
    ),
    Setting(
        "ssl.enabled.protocols",
        list,
        TLS_VERSIONS,
        "The versions of TLS that may be spoken.",
        takes="str | Sequence[str]",
        reads=_read_words("ssl.enabled.protocols", TLS_VERSIONS),
        group="Security",
    ),
    Setting(
        "ssl.cipher.suites",
        list,
        (),
        "The cipher suites of TLS 1.2 to offer, by Java's or OpenSSL's names; without a name of TLS 1.3 (TLS_AES...) "
        "TLS 1.3 is not spoken, with one all of its suites are offered. Empty: OpenSSL's choice.",
        takes="str | Sequence[str]",
        reads=_read_words("ssl.cipher.suites", ()),
        group="Security",
    ),
    Setting(
        _MECHANISM.name,
        str,
        None,
        _MECHANISM.doc,
        allowed=MECHANISMS,
        takes="str",
        reads=_read_mechanism,
        group="Security",
    ),
    Setting(
        "sasl.jaas.config",
        str,
        None,
        "User and password as Java clients write them: `...ScramLoginModule required username=... password=...;`.",
        secret=True,
        kip=85,
        group="Security",
    ),
    Setting(
        "sasl.username", str, None, "The user of PLAIN and SCRAM (ottla's own, as in librdkafka).", group="Security"
    ),
    Setting(
        "sasl.password",
        str,
        None,
        "The password of PLAIN and SCRAM (ottla's own, as in librdkafka).",
        secret=True,
        group="Security",
    ),
    *OAUTH_SETTINGS,
)


class SecuritySettings:
    """The settings of `SECURITY_SETTINGS` after all checks.

    `username` and `password` are those of PLAIN and SCRAM; `tokens` is for OAUTHBEARER, else None. `repr` names the
    protocol and the mechanism and nothing else.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Take values that `read_settings` has read; `ConfigError` if they contradict each other."""
        self.protocol: str = values["security_protocol"]
        self.is_tls = self.protocol.endswith("SSL")
        self.is_sasl = self.protocol.startswith("SASL")
        self.mechanism: str | None = values["sasl_mechanism"]
        self.username: str | None = values["sasl_username"]
        self.password: str | None = values["sasl_password"]
        self.tokens: TokenSource | None = None
        self.token_refresh_factor: float = values["sasl_login_refresh_window_factor"]
        self.truststore_location: str | None = values["ssl_truststore_location"]
        self.truststore_certificates: str | None = values["ssl_truststore_certificates"]
        self.keystore_location: str | None = values["ssl_keystore_location"]
        self.keystore_certificate_chain: str | None = values["ssl_keystore_certificate_chain"]
        self.keystore_key: str | None = values["ssl_keystore_key"]
        self.truststore_password: str | None = values["ssl_truststore_password"]
        self.keystore_password: str | None = values["ssl_keystore_password"]
        self.key_password: str | None = values["ssl_key_password"]
        self.checks_host_name = values["ssl_endpoint_identification_algorithm"] == "https"
        self.tls_versions = self._choose_tls_versions(values["ssl_protocol"], values["ssl_enabled_protocols"])
        self.cipher_suites: tuple[str, ...] = values["ssl_cipher_suites"]
        self._check_stores(values)
        if self.is_sasl:
            self._check_sasl(values)

    def __repr__(self) -> str:
        return f"<SecuritySettings {self.protocol} {self.mechanism or ''}>"

    def _choose_tls_versions(self, newest: str, enabled: tuple[str, ...]) -> tuple[str, ...]:
        versions = tuple(v for v in TLS_VERSIONS if v in enabled and (newest != "TLSv1.2" or v == newest))
        if self.is_tls and not versions:
            raise ConfigError(
                f"ssl.protocol={newest} and ssl.enabled.protocols={','.join(enabled)} leave no version of TLS; "
                "leave both out, or enable one up to ssl.protocol."
            )
        return versions

    def _check_stores(self, values: Mapping[str, Any]) -> None:
        for store in ("truststore", "keystore"):
            if values[f"ssl_{store}_password"] is not None and values[f"ssl_{store}_location"] is None:
                raise ConfigError(
                    f"ssl.{store}.password is for the file ssl.{store}.location (JKS or PKCS12), which is not given; "
                    "give both, or neither."
                )
        if self.truststore_location and self.truststore_certificates:
            raise ConfigError("ssl.truststore.location and ssl.truststore.certificates say the same; keep one.")
        texts = (self.keystore_certificate_chain, self.keystore_key)
        if self.keystore_location and any(texts):
            raise ConfigError(
                "ssl.keystore.location and ssl.keystore.certificate.chain or ssl.keystore.key say the same; keep one."
            )
        if any(texts) and not all(texts):
            raise ConfigError(
                "ssl.keystore.certificate.chain and ssl.keystore.key go together; give both, or one file with both as "
                "ssl.keystore.location."
            )

    def _check_sasl(self, values: Mapping[str, Any]) -> None:
        jaas_text: str | None = values["sasl_jaas_config"]
        if self.mechanism is None:
            raise ConfigError(
                f"security.protocol={self.protocol} needs sasl.mechanism; allowed are {', '.join(MECHANISMS)}."
            )
        jaas = self._read_jaas(jaas_text) if jaas_text else None
        if self.mechanism == OAUTHBEARER:
            self.tokens = TokenSource(values, jaas.options if jaas else {})
            return
        if self.username is None or self.password is None:
            raise ConfigError(
                f"sasl.mechanism={self.mechanism} needs a user: give sasl.username and sasl.password, or "
                "sasl.jaas.config with username and password."
            )
        if not self.username or "\0" in self.username + self.password:
            raise ConfigError(
                "sasl.username is empty, or it or sasl.password has a zero byte in it; neither can be sent."
            )

    def _read_jaas(self, text: str) -> JaasConfig:
        jaas = parse_jaas(text)
        family = "SCRAM" if self.mechanism in SCRAM else self.mechanism
        if jaas.family != family:
            raise ConfigError(
                f"sasl.jaas.config names {jaas.module}, but sasl.mechanism={self.mechanism}; make them one."
            )
        if family != OAUTHBEARER:
            if self.username is not None or self.password is not None:
                raise ConfigError("sasl.jaas.config and sasl.username or sasl.password say the same; keep one.")
            if jaas.options.get("tokenauth", "false").lower() == "true":
                # The SCRAM extension for it is not sent here: brokers would look for a user with the token's id.
                raise ConfigError(
                    "sasl.jaas.config has tokenauth=true: delegation tokens (KIP-48) are not supported. Give a user "
                    "and its password, or use OAUTHBEARER."
                )
            self.username = jaas.options.get("username")
            self.password = jaas.options.get("password")
        return jaas
