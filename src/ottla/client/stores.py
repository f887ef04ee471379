"""Java's keystores and truststores, JKS and PKCS12, converted to what OpenSSL takes.

The kind of a store is found by its first bytes, not by a setting: with the type JKS Java reads both, and by default it
writes PKCS12. JKS is read by `jks.py`, PKCS12 by the library cryptography (extra `pkcs12`). A key's password is the
store's where no other is given, as in Kafka's own clients.

Invariants: every problem with a store is a ConfigError that names setting and file; no error's text has a password or a
key.
"""

from __future__ import annotations

from base64 import encodebytes
from importlib import import_module
from typing import Any

from ottla.client import jks
from ottla.errors import ConfigError, MissingExtra

# The first byte of every PKCS12 store (DER, a SEQUENCE). The next one is 0x80 or more: the content is over 127 bytes.
_DER = 0x30

_TRUSTSTORE_PASSWORD = "ssl.truststore.password"
_KEYSTORE_PASSWORD = "ssl.keystore.password"
_NO_KEY = "is a store without a private key; ssl.keystore.location must hold the client's key and its certificate."


def is_store(content: bytes) -> bool:
    """Whether this is one of Java's stores, by its first bytes."""
    return content.startswith(jks.MAGIC) or (len(content) > 1 and content[0] == _DER and content[1] >= 0x80)


def read_truststore(content: bytes, told: str, password: str | None) -> bytes:
    """The trusted certificates, DER after DER. `told`: the setting and the file, for errors."""
    if content.startswith(jks.MAGIC):
        store = _open_jks(content, told, _TRUSTSTORE_PASSWORD, password)
        # As in Java, the first certificate of each key is trusted, too.
        found = [*store.believed.values(), *(key.certificates[0] for key in store.keys if key.certificates)]
    else:
        opened = _open_pkcs12(content, told, _TRUSTSTORE_PASSWORD, password)
        found = [_der(each) for each in _certificates(opened)]
    if not found:
        raise ConfigError(f"{told} is a store without any certificate; import the CA certificates to trust (keytool).")
    return b"".join(found)


def read_keystore(content: bytes, told: str, password: str | None, key_password: str | None) -> str:
    """The private key and its certificates in PEM, the key not encrypted: only OpenSSL may get this."""
    if content.startswith(jks.MAGIC):
        return _key_of_jks(_open_jks(content, told, _KEYSTORE_PASSWORD, password), told, password, key_password)
    # In PKCS12 a key always has the store's password.
    opened = _open_pkcs12(content, told, _KEYSTORE_PASSWORD, password)
    if opened.key is None or opened.cert is None:
        raise ConfigError(f"{told} {_NO_KEY}")
    encoding = import_module("cryptography.hazmat.primitives.serialization")
    key: str = opened.key.private_bytes(
        encoding.Encoding.PEM, encoding.PrivateFormat.PKCS8, encoding.NoEncryption()
    ).decode()
    return key + "".join(_pem("CERTIFICATE", _der(each)) for each in _in_order(opened))


def _key_of_jks(store: jks.JavaKeyStore, told: str, password: str | None, key_password: str | None) -> str:
    if not store.keys:
        raise ConfigError(f"{told} {_NO_KEY}")
    if len(store.keys) > 1:
        aliases = ", ".join(sorted(entry.alias for entry in store.keys)[:5])
        raise ConfigError(
            f"{told} holds {len(store.keys)} private keys ({aliases}), and a client uses one: make a store of that "
            "one by keytool -importkeystore -srcalias ALIAS."
        )
    (entry,) = store.keys
    name, opener = ("ssl.key.password", key_password) if key_password is not None else (_KEYSTORE_PASSWORD, password)
    if opener is None:
        raise ConfigError(f"{_KEYSTORE_PASSWORD} is missing: it must open {told}.")
    try:
        key = entry.open(opener)
    except jks.WrongPassword:
        more = "" if name == "ssl.key.password" else "; where the key has a password of its own, give ssl.key.password"
        raise ConfigError(f"{name} is wrong for the private key in {told}{more}.") from None
    except jks.Damaged:
        raise ConfigError(f"{told} holds a private key that cannot be read; make the store anew.") from None
    return _pem("PRIVATE KEY", key) + "".join(_pem("CERTIFICATE", each) for each in entry.certificates)


def _open_jks(content: bytes, told: str, name: str, password: str | None) -> jks.JavaKeyStore:
    try:
        return jks.read_jks(content, password)
    except jks.WrongPassword:
        raise ConfigError(f"{name} does not open {told}, or the store was changed.") from None
    except jks.Damaged:
        raise ConfigError(f"{told} is a JKS store that is damaged or cut off; make it anew.") from None


def _open_pkcs12(content: bytes, told: str, name: str, password: str | None) -> Any:
    try:
        pkcs12 = import_module("cryptography.hazmat.primitives.serialization.pkcs12")
    except ImportError:
        raise MissingExtra(
            f"{told} is a PKCS12 store, for which the package cryptography is needed: pip install 'ottla[pkcs12]'; or "
            "openssl pkcs12 -in STORE -out STORE.pem makes a PEM file of it."
        ) from None
    try:
        return pkcs12.load_pkcs12(content, None if password is None else password.encode())
    except Exception:
        # The library has several types of errors for a wrong password or a damaged store.
        if password is None:
            raise ConfigError(f"{name} is missing: it must open {told}, if that is a PKCS12 store.") from None
        raise ConfigError(f"{name} does not open {told}, or that is no PKCS12 store.") from None


def _certificates(opened: Any) -> list[Any]:
    own = [] if opened.cert is None else [opened.cert.certificate]
    return own + [each.certificate for each in opened.additional_certs]


def _in_order(opened: Any) -> list[Any]:
    """The key's certificate, then that of its issuer, and so on."""
    own, *others = _certificates(opened)
    chain = [own]
    while chain[-1].issuer != chain[-1].subject:
        issuers = [each for each in others if each.subject == chain[-1].issuer and each not in chain]
        if not issuers:
            break
        chain.append(issuers[0])
    return chain


def _der(certificate: Any) -> bytes:
    encoding = import_module("cryptography.hazmat.primitives.serialization")
    der: bytes = certificate.public_bytes(encoding.Encoding.DER)
    return der


def _pem(kind: str, der: bytes) -> str:
    return f"-----BEGIN {kind}-----\n{encodebytes(der).decode()}-----END {kind}-----\n"
