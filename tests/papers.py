"""Papers for TLS: PEM files that servers and clients show, and whom to believe. The fixture is in conftest.py."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives import serialization

KEY_PASSWORD = "key-password-4711"


class Papers:
    """Certificates of two authorities, each in one file with its key in PKCS #8, which Apache Kafka insists on."""

    def __init__(self, folder: Path) -> None:
        ours, other = trustme.CA(), trustme.CA()
        self._folder = folder
        self.server = self._issue(ours, "server", "127.0.0.1", "localhost")
        past = datetime(2020, 1, 1, tzinfo=UTC)
        self.expired = self._issue(ours, "expired", "127.0.0.1", not_before=past - timedelta(days=1), not_after=past)
        self.elsewhere = self._issue(ours, "elsewhere", "kafka.elsewhere.example")
        self.client = self._issue(ours, "client", "client@ottla.example")
        self.untrusted = self._issue(other, "untrusted", "client@ottla.example")
        self.ca = folder / "ca.pem"
        ours.cert_pem.write_to_path(str(self.ca))
        self.other_ca = folder / "other-ca.pem"
        other.cert_pem.write_to_path(str(self.other_ca))
        # The client's again, to be opened with KEY_PASSWORD.
        self.locked = folder / "locked.pem"
        key, certificates = self.parts(self.client)
        self.locked.write_bytes(_pkcs_8(key, KEY_PASSWORD) + certificates)

    def _issue(self, authority: Any, name: str, *whom: str, **when: datetime) -> Path:
        issued = authority.issue_cert(*whom, **when)
        path = self._folder / f"{name}.pem"
        certificates = b"".join(each.bytes() for each in issued.cert_chain_pems)
        path.write_bytes(_pkcs_8(issued.private_key_pem.bytes()) + certificates)
        return path

    @staticmethod
    def parts(path: Path) -> tuple[bytes, bytes]:
        """The key and the certificates of a file that holds both."""
        pem = path.read_bytes()
        begin = pem.index(b"-----BEGIN CERTIFICATE")
        return pem[:begin], pem[begin:]


def _pkcs_8(key: bytes, password: str = "") -> bytes:
    lock = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock
    )
