"""Java's own kind of keystore, JKS, read without a library: a format that has not changed since 1998.

    magic, version, count | entries | SHA-1 of password, "Mighty Aphrodite" and all before

An entry is a private key with its certificates, or a trusted certificate. A key is encrypted by XOR with a stream of
SHA-1 digests, each of the password and the digest before. A digest of password and key shows whether the password was
right.

Invariants: a length in a file never makes this allocate memory beyond the file's size; no error's text holds a password
or a key.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

MAGIC = b"\xfe\xed\xfe\xed"

_SALT = b"Mighty Aphrodite"
_DIGEST_BYTES = 20
_KEY_ENTRY, _CERTIFICATE_ENTRY = 1, 2
# 1.3.6.1.4.1.42.2.17.1.1: the encryption of keys that is described above.
_KEY_PROTECTOR = bytes.fromhex("2b060104012a02110101")
_SEQUENCE, _OBJECT_ID, _OCTETS = 0x30, 0x06, 0x04


class Damaged(Exception):
    """The store cannot be read: cut off, changed, or of another kind."""


class WrongPassword(Exception):
    """The password does not open the store, or the key."""


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A private key, still encrypted, and its certificate chain, its own certificate first (DER)."""

    alias: str
    encrypted: bytes = field(repr=False)
    certificates: tuple[bytes, ...] = field(repr=False)

    def open(self, password: str) -> bytes:
        """The key in PKCS #8 (DER); WrongPassword, Damaged."""
        content = _encrypted_data(self.encrypted)
        salt, hidden, told = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
        secret, digest = _encoded(password), salt
        key = bytearray()
        while len(key) < len(hidden):
            digest = hashlib.sha1(secret + digest, usedforsecurity=False).digest()
            piece = hidden[len(key) : len(key) + _DIGEST_BYTES]
            key += bytes(one ^ other for one, other in zip(piece, digest, strict=False))
        if not hmac.compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), told):
            raise WrongPassword
        return bytes(key)


@dataclass(frozen=True, slots=True)
class JavaKeyStore:
    """What a store holds: keys, and by alias the trusted certificates (DER)."""

    keys: tuple[KeyEntry, ...]
    believed: dict[str, bytes] = field(repr=False)


def read_jks(content: bytes, password: str | None) -> JavaKeyStore:
    """Read a store; without a password its digest is not checked, as in Java. WrongPassword, Damaged."""
    if password is not None:
        told = content[-_DIGEST_BYTES:]
        digest = hashlib.sha1(_encoded(password) + _SALT + content[:-_DIGEST_BYTES], usedforsecurity=False).digest()
        if not hmac.compare_digest(digest, told):
            raise WrongPassword
    left = _Bytes(content[:-_DIGEST_BYTES])
    if left.take(4) != MAGIC:
        raise Damaged
    version, count = left.number(), left.number()
    if version not in (1, 2):
        raise Damaged
    keys: list[KeyEntry] = []
    believed: dict[str, bytes] = {}
    for _ in range(count):
        kind, alias = left.number(), left.text()
        left.take(8)  # when it was made
        if kind == _KEY_ENTRY:
            encrypted = left.take(left.number())
            chain = tuple(_certificate(left, version) for _ in range(left.number()))
            keys.append(KeyEntry(alias, encrypted, chain))
        elif kind == _CERTIFICATE_ENTRY:
            believed[alias] = _certificate(left, version)
        else:
            raise Damaged
    return JavaKeyStore(tuple(keys), believed)


def _encoded(password: str) -> bytes:
    return password.encode("utf-16-be")


def _certificate(left: _Bytes, version: int) -> bytes:
    if version == 2 and left.text() != "X.509":
        raise Damaged
    return left.take(left.number())


class _Bytes:
    """A store's bytes, taken from its beginning on."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._place = 0

    def take(self, size: int) -> bytes:
        taken = self._content[self._place : self._place + size]
        if len(taken) < size:
            raise Damaged
        self._place += size
        return taken

    def number(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def text(self) -> str:
        return self.take(int.from_bytes(self.take(2), "big")).decode("utf-8", "replace")


def _encrypted_data(der: bytes) -> bytes:
    """The data in an EncryptedPrivateKeyInfo: SEQUENCE of (SEQUENCE of (OBJECT ID, ...), OCTET STRING)."""
    info, _ = _value(der, _SEQUENCE)
    algorithm, behind = _value(info, _SEQUENCE)
    kind, _ = _value(algorithm, _OBJECT_ID)
    data, _ = _value(behind, _OCTETS)
    if kind != _KEY_PROTECTOR or len(data) < 2 * _DIGEST_BYTES:
        raise Damaged
    return data


def _value(der: bytes, tag: int) -> tuple[bytes, bytes]:
    """The content of the first value, which must have this tag, and what is behind it."""
    if len(der) < 2 or der[0] != tag:
        raise Damaged
    size, begin = der[1], 2
    if size & 0x80:
        begin += size & 0x7F
        size = int.from_bytes(der[2:begin], "big")
    if len(der) < begin + size:
        raise Damaged
    return der[begin : begin + size], der[begin + size :]
