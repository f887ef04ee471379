"""TLS for channels: one `ssl.SSLContext` for a client, and sockets that encrypt; imported when a listener wants it.

`Channel` uses a `TlsSocket` like a plain non-blocking socket. It works on the socket's own descriptor:
OpenSSL encrypts straight out of a batch's memory and decrypts straight into a frame's, without the two copies that a
pair of memory buffers (`wrap_bio`) would make. Measured with batches of 1 MB: a MB sent costs 370 us of CPU in pieces
of 64 KiB, the kernel's share included, and 400 us in pieces of 16 KiB or of 1 MB.

Invariants: certificates and keys are read once, when a client is made, so every problem with them is a ConfigError
there. No error's text has a password or a key. No closing alert is sent at the end: after a fork the child closes its
copy of a connection that the parent goes on using.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from socket import socket
from typing import Any

from ottla.client.poller import READABLE, WRITABLE
from ottla.client.stores import is_store, read_keystore, read_truststore
from ottla.connection.loss import CLOSED_BY_BROKER, CLOSED_IN_TLS_HANDSHAKE, Loss, Lost, tls_failed
from ottla.connection.security_settings import SecuritySettings
from ottla.connection.setting import shown
from ottla.errors import ConfigError

_PIECE_BYTES = 65_536
# Far more than a store with all known authorities; without a limit, a file such as /dev/zero would be read for ever.
_STORE_BYTES_MAX = 64 << 20
_OUT = "leave it out"
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

# OpenSSL's reasons (in lower case, with spaces) -> what to do.
_ADVICE = (
    ("hostname mismatch", "connect by a name that is in it, or set ssl.endpoint.identification.algorithm to nothing"),
    ("ip address mismatch", "connect by a name that is in it, or set ssl.endpoint.identification.algorithm to nothing"),
    ("certificate has expired", "have the broker's certificate renewed, or set the clock of this machine right"),
    (
        "certificate is not yet valid",
        "set the clock of this machine right, or have the broker show another certificate",
    ),
    ("certificate verify failed", "name who issued the broker's certificate in ssl.truststore.location"),
    ("certificate required", "the broker wants a certificate of yours: give ssl.keystore.location"),
    ("unknown ca", "the broker does not know who issued the certificate in ssl.keystore.location"),
    (
        "certificate unknown",
        "the broker does not accept the certificate in ssl.keystore.location; often it does not know who issued it",
    ),
    ("bad certificate", "the broker wants a certificate of yours that it accepts: look at ssl.keystore.location"),
    ("certificate expired", "the certificate in ssl.keystore.location is too old for the broker"),
    ("wrong version number", "the other side does not speak TLS: set security.protocol without SSL, or another port"),
    ("record layer failure", "the other side does not speak TLS: set security.protocol without SSL, or another port"),
    ("protocol version", "no version of TLS in common: look at ssl.enabled.protocols"),
    ("unsupported protocol", "no version of TLS in common: look at ssl.enabled.protocols"),
    ("handshake failure", "nothing in common, or the broker wants a certificate of yours (ssl.keystore.location)"),
)


def client_context(security: SecuritySettings) -> ssl.SSLContext:
    """The TLS context of one client's connections; ConfigError for files and texts that cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = security.checks_host_name
    context.verify_mode = ssl.CERT_REQUIRED
    _choose_versions(context, security)
    _believe(context, security)
    if security.keystore_location is not None:
        _show_file(context, security.keystore_location, security)
    elif security.keystore_key is not None:
        names = "ssl.keystore.key and ssl.keystore.certificate.chain"
        with _as_file(f"{security.keystore_key}\n{security.keystore_certificate_chain}\n") as path:
            _show(context, path, names, security.key_password)
    return context


def _choose_versions(context: ssl.SSLContext, security: SecuritySettings) -> None:
    versions = security.tls_versions
    suites = security.cipher_suites
    if suites:
        older = [openssl_name(suite) for suite in suites if not _is_of_tls_1_3(suite)]
        versions = tuple(v for v in versions if older or v != "TLSv1.2")
        versions = tuple(v for v in versions if len(older) < len(suites) or v != "TLSv1.3")
        if not versions:
            raise ConfigError(
                f"ssl.cipher.suites={_shown_words(suites)} has none for the versions of TLS in ssl.enabled.protocols."
            )
        try:
            context.set_ciphers(":".join(older) if older else "DEFAULT")
        except ssl.SSLError:
            raise ConfigError(
                f"ssl.cipher.suites={_shown_words(suites)} has none that OpenSSL knows; see openssl ciphers -stdname."
            ) from None
    context.minimum_version = _VERSIONS[versions[0]]
    context.maximum_version = _VERSIONS[versions[-1]]


def _shown_words(words: Sequence[str]) -> str:
    return ",".join(shown(word).strip("'") for word in words)


def _is_of_tls_1_3(suite: str) -> bool:
    return suite.startswith("TLS_") and "_WITH_" not in suite


def openssl_name(suite: str) -> str:
    """OpenSSL's name of a cipher suite of TLS 1.2, which may be given by its standard (Java's) name."""
    if not suite.startswith("TLS_"):
        return suite
    keys, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("_CBC", "")
    if "POLY1305" in cipher:
        cipher = cipher.removesuffix("_SHA256")
    name = cipher if keys == "RSA" else f"{keys}_{cipher}"
    return name.replace("_", "-")


def _believe(context: ssl.SSLContext, security: SecuritySettings) -> None:
    location, text = security.truststore_location, security.truststore_certificates
    if location is None and text is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    told = f"ssl.truststore.location={_shown_path(location)}" if location is not None else "ssl.truststore.certificates"
    believed: str | bytes | None = text
    if location is not None:
        content = _content(told, location)
        if is_store(content):
            believed, location = read_truststore(content, told, security.truststore_password), None
        elif security.truststore_password is not None:
            raise ConfigError(f"{told} is not a JKS or PKCS12 store, so ssl.truststore.password opens nothing; {_OUT}.")
    try:
        context.load_verify_locations(cafile=location, cadata=believed)
    except (ssl.SSLError, ValueError):
        raise ConfigError(f"{told} holds no certificate; it must be PEM, JKS or PKCS12.") from None


def _shown_path(path: str) -> str:
    """The path, but "[hidden]" if it looks like a key or a line of settings given by mistake."""
    is_path = not any(sign in path for sign in "@=") and all(len(part) <= 64 for part in path.split("/"))
    return path if is_path else "[hidden]"


def _content(told: str, location: str) -> bytes:
    try:
        with Path(location).open("rb") as file:
            return file.read(_STORE_BYTES_MAX)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"{told} cannot be read ({reason}).") from None


def _show_file(context: ssl.SSLContext, location: str, security: SecuritySettings) -> None:
    told = f"ssl.keystore.location={_shown_path(location)}"
    content = _content(told, location)
    if is_store(content):
        pem = read_keystore(content, told, security.keystore_password, security.key_password)
        with _as_file(pem) as path:
            _show(context, path, told, None)
        return
    if security.keystore_password is not None:
        raise ConfigError(
            f"{told} is not a JKS or PKCS12 store, so ssl.keystore.password opens nothing; {_OUT}, or give "
            "ssl.key.password for a key in PEM."
        )
    _show(context, location, "ssl.keystore.location", security.key_password)


def _show(context: ssl.SSLContext, path: str, names: str, password: str | None) -> None:
    """Use the certificate and key in this file for brokers that ask for a certificate."""
    asked = False

    def told() -> str:
        # Without this function, OpenSSL would ask for a password at the terminal.
        nonlocal asked
        asked = True
        return password or ""

    try:
        context.load_cert_chain(path, password=told)
    except (ssl.SSLError, ValueError) as error:
        if asked:
            problem = "is wrong for" if password else "is missing: it must open"
            raise ConfigError(f"ssl.key.password {problem} the private key in {names}.") from None
        reason = _reason_of(error) if isinstance(error, ssl.SSLError) else "not usable"
        raise ConfigError(
            f"{names} cannot be used ({reason}): it must hold a private key and the certificate made for it."
        ) from None


@contextlib.contextmanager
def _as_file(text: str) -> Iterator[str]:
    """A file with this text (OpenSSL takes keys only from files): in memory if possible, else only for its owner."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        fd = os.memfd_create("ottla", os.MFD_CLOEXEC)
        path = f"/proc/self/fd/{fd}"
    else:
        fd, path = tempfile.mkstemp(prefix="ottla-")
    try:
        with open(fd, "w", encoding="utf-8", closefd=False) as file:
            file.write(text)
        yield path
    finally:
        os.close(fd)
        if not path.startswith("/proc/"):
            os.unlink(path)


def _reason_of(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).lower().replace("_", " ")


def explain(error: ssl.SSLError) -> Loss:
    """The loss for an error of OpenSSL, with what to do."""
    reason = _reason_of(error)
    said = reason
    if isinstance(error, ssl.SSLCertVerificationError):
        said = f"the broker's certificate: {error.verify_message or reason}"
        reason = f"{error.verify_message.lower()} {reason}"
    said = said.removeprefix("tlsv1 ").removeprefix("tlsv13 ").removeprefix("sslv3 ").rstrip(".")
    for sign, advice in _ADVICE:
        if sign in reason:
            return tls_failed(f" ({said}); {advice}")
    return tls_failed(f" ({said})")


class TlsSocket:
    """A connected non-blocking socket with TLS, with the few methods that `Channel` calls.

    Where it would have to wait, it raises BlockingIOError, as a plain socket does.
    """

    __slots__ = ("_put_off", "_refusal", "_socket")

    def __init__(self, sock: socket, context: ssl.SSLContext, host: str) -> None:
        self._socket = context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
        # The bytes that OpenSSL could not send yet: it must be given the same ones again.
        self._put_off: memoryview | None = None
        # Why the broker closed the connection. OpenSSL raises that only once; a later read raises it again.
        self._refusal: Loss | None = None

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._socket.fileno()

    def shake_hands(self) -> int:
        """Go on with the handshake: 0 when it is done, else the events to wait for. Raises Lost, OSError."""
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            return READABLE
        except ssl.SSLWantWriteError:
            return WRITABLE
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError):
            raise Lost(CLOSED_IN_TLS_HANDSHAKE) from None
        except ssl.SSLError as error:
            raise Lost(explain(error)) from None
        return 0

    def recv_into(self, buffer: memoryview) -> int:
        """As a plain socket's, but it fills the buffer unless it would have to wait, or the connection has ended."""
        if self._refusal is not None:
            raise Lost(self._refusal)
        filled = 0
        try:
            while filled < len(buffer):
                size = self._socket.recv_into(buffer[filled:] if filled else buffer)
                if not size:
                    break
                filled += size
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not filled:
                raise BlockingIOError from None
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            pass  # the end, with a closing alert or without: frames have a length, so a cut one is noticed
        except ssl.SSLError as error:
            # With TLS 1.3 the broker's refusal of a certificate comes with the first read.
            self._refusal = explain(error)
            raise Lost(self._refusal) from None
        return filled

    def sendmsg(self, pieces: Sequence[Any]) -> int:
        """Send the first bytes of the pieces; return how many were sent."""
        content = self._put_off
        if content is None:
            content = memoryview(pieces[0]).cast("B")
            if len(content) < _PIECE_BYTES and len(pieces) > 1:
                content = memoryview(_head(pieces))
            content = content[:_PIECE_BYTES]
        try:
            sent = self._socket.send(content)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            self._put_off = content
            raise BlockingIOError from None
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError):
            self._hear_refusal()
            raise Lost(CLOSED_BY_BROKER) from None
        except ssl.SSLError as error:
            raise Lost(explain(error)) from None
        self._put_off = None
        return sent

    def _hear_refusal(self) -> None:
        """Raise Lost if the broker has sent an alert with its reason: with TLS 1.3 it comes after the handshake."""
        with contextlib.suppress(OSError):
            self.recv_into(memoryview(bytearray(1)))

    def close(self) -> None:
        """Close the socket without a closing alert."""
        self._socket.close()


def _head(pieces: Sequence[Any]) -> bytes:
    """The first `_PIECE_BYTES` of all pieces in one buffer: small pieces are sent together."""
    taken = bytearray()
    for piece in pieces:
        taken += memoryview(piece).cast("B")[: _PIECE_BYTES - len(taken)]
        if len(taken) == _PIECE_BYTES:
            break
    return bytes(taken)
