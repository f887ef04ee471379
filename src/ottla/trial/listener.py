"""The listener by which a side is read: in plain text, or through TLS with a certificate made for this side alone.

Clients send in plain text in either case, so that any client can take part. Only the brokers' answers to the trial's
own reader differ.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from ottla.errors import OttlaError
from ottla.sockets.listener import Listener
from ottla.trial.scenario import PLAINTEXT, SSL, Side

_OPENSSL = "openssl"
_PATIENCE_S = 60.0


class SideListeners(NamedTuple):
    """The listeners of a side's cluster, None for the usual one, and the settings of its reader."""

    listeners: dict[str, Listener] | None
    reader: dict[str, Any]


def why_no_listener(side: Side) -> str | None:
    """Why this machine cannot offer the listener that the side is read by; None where it can."""
    if side.listener == SSL and shutil.which(_OPENSSL) is None:
        return f"the program {_OPENSSL} is needed, which makes the certificate for TLS"
    return None


@contextmanager
def listeners_of(side: Side) -> Iterator[SideListeners]:
    """What a side's cluster listens on. A certificate is there for as long as the block lasts."""
    if side.listener == PLAINTEXT:
        yield SideListeners(None, {})
        return
    with TemporaryDirectory(prefix="ottla-trial-") as folder:
        certificate, key = Path(folder, "certificate.pem"), Path(folder, "key.pem")
        _make_certificate(certificate, key)
        tls = Listener(protocol=SSL, certificate=certificate, private_key=key)
        reader = {"security_protocol": SSL, "ssl_truststore_location": certificate}
        yield SideListeners({PLAINTEXT: Listener(), SSL: tls}, reader)


def _make_certificate(certificate: Path, key: Path) -> None:
    """A self-signed certificate for this machine's own address."""
    command = [
        _OPENSSL, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
        "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key),
        "-out", str(certificate),
    ]  # fmt: skip
    made = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    if made.returncode:
        raise OttlaError(f"{_OPENSSL} made no certificate: {made.stderr.strip()[-300:]}")
