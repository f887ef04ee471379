"""Keystores and truststores in JKS and PKCS12, made by Java's own keytool, as Spark's users have them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import load_pem_x509_certificates
from tests.needs import lacking
from tests.papers import Papers

import ottla
from ottla import Listener
from ottla.client import jks
from ottla.errors import UserMistake

STORE_PASSWORD, KEY_PASSWORD = "store-5150", "key-0815"
KINDS = ("JKS", "PKCS12")


@pytest.fixture(scope="session")
def keytool() -> str:
    from ottla.spark.java import find_java

    try:
        found = find_java()[0].resolve().with_name("keytool")
    except UserMistake as reason:
        lacking("spark", reason)
    if not found.exists():
        lacking("spark", f"{found} is not there")
    return str(found)


class Stores:
    """Stores of both kinds in one folder: whom to believe, and the client's key."""

    def __init__(self, keytool: str, papers: Papers, folder: Path) -> None:
        self._keytool, self._folder = keytool, folder
        self._plain = folder / "from-pem.p12"
        key, certificates = papers.parts(papers.client)
        chain = load_pem_x509_certificates(certificates + papers.ca.read_bytes())
        lock = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
        loaded: Any = serialization.load_pem_private_key(key, None)
        self._plain.write_bytes(pkcs12.serialize_key_and_certificates(b"client", loaded, chain[0], chain[1:], lock))
        for kind in KINDS:
            self.believe(papers.ca, self.trust(kind))
            # In PKCS12 a key has the store's password.
            opens = KEY_PASSWORD if kind == "JKS" else STORE_PASSWORD
            self.take(self.key(kind), "client", opens)

    def trust(self, kind: str) -> Path:
        return self._folder / f"trust.{kind}"

    def key(self, kind: str) -> Path:
        return self._folder / f"client.{kind}"

    def believe(self, file: Path, store: Path) -> None:
        """Put a certificate among those that are believed."""
        arguments = ["-importcert", "-noprompt", "-alias", "ca", "-file", str(file), "-keystore", str(store)]
        self._keytool_says(*arguments, "-storetype", _kind(store), "-storepass", STORE_PASSWORD)

    def take(self, target: Path, alias: str, key_password: str) -> None:
        """Put the client's key into a store."""
        source_is = ["-srckeystore", str(self._plain), "-srcstoretype", "PKCS12", "-srcstorepass", STORE_PASSWORD]
        target_is = ["-destkeystore", str(target), "-deststoretype", _kind(target), "-deststorepass", STORE_PASSWORD]
        what = ["-srcalias", "client", "-destalias", alias, "-destkeypass", key_password]
        self._keytool_says("-importkeystore", *source_is, *target_is, *what)

    def _keytool_says(self, *arguments: str) -> None:
        done = subprocess.run([self._keytool, *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


def _kind(store: Path) -> str:
    return "PKCS12" if store.suffix == ".PKCS12" else "JKS"


@pytest.fixture(scope="module")
def stores(keytool: str, papers: Papers, tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores(keytool, papers, tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def cluster(papers: Papers) -> Iterator[ottla.Cluster]:
    listeners = {
        "PLAINTEXT": Listener(),
        "MUTUAL": Listener(protocol="SSL", certificate=papers.server, client_auth="required", client_ca=papers.ca),
    }
    with ottla.Cluster(brokers=1, listeners=listeners) as cluster:
        yield cluster


def settings(stores: Stores, kind: str, **more: Any) -> dict[str, Any]:
    given = {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(stores.trust(kind)),
        "ssl.truststore.password": STORE_PASSWORD,
        "ssl.keystore.location": str(stores.key(kind)),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.key.password": KEY_PASSWORD if kind == "JKS" else None,
    } | more
    return {name: text for name, text in given.items() if text is not None}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("told", [True, False], ids=["kind told", "kind found out"])
def test_a_client_comes_in_by_stores_of_javas(
    cluster: ottla.Cluster, stores: Stores, kafka_name: str, kind: str, told: bool
) -> None:
    cluster.create_topic(kafka_name)
    kinds = {"ssl.truststore.type": kind, "ssl.keystore.type": kind.lower()} if told else {}
    given = settings(stores, kind, **kinds)
    with ottla.Producer(cluster.bootstrap_servers_of("MUTUAL"), **given) as producer:
        assert producer.send(kafka_name, b"x").result(30).offset == 0


def test_a_truststore_in_jks_needs_no_password_as_in_java(
    cluster: ottla.Cluster, stores: Stores, kafka_name: str
) -> None:
    cluster.create_topic(kafka_name)
    given = settings(stores, "JKS", **{"ssl.truststore.password": None})
    with ottla.Admin(cluster.bootstrap_servers_of("MUTUAL"), **given) as admin:
        assert kafka_name in admin.list_topics()


def test_who_is_not_in_a_truststore_is_not_believed(
    cluster: ottla.Cluster, stores: Stores, papers: Papers, tmp_path: Path
) -> None:
    other = tmp_path / "other.jks"
    stores.believe(papers.other_ca, other)
    given = settings(stores, "JKS", **{"ssl.truststore.location": str(other)})
    with (
        ottla.Producer(cluster.bootstrap_servers_of("MUTUAL"), **given) as producer,
        pytest.raises(ottla.AuthenticationError, match=r"name who issued .* in ssl\.truststore\.location"),
    ):
        producer.send("any", b"x")


@pytest.mark.parametrize(
    ("kind", "more", "said"),
    [
        ("JKS", {"ssl.truststore.password": "wrong-4711"}, r"ssl\.truststore\.password does not open .*trust\.JKS"),
        (
            "PKCS12",
            {"ssl.truststore.password": "wrong-4711"},
            r"ssl\.truststore\.password does not open .*trust\.PKCS12",
        ),
        ("PKCS12", {"ssl.truststore.password": None}, r"ssl\.truststore\.password is missing: it must open .*trust\.P"),
        ("JKS", {"ssl.keystore.password": "wrong-4711"}, r"ssl\.keystore\.password does not open .*client\.JKS"),
        ("PKCS12", {"ssl.keystore.password": "wrong-4711"}, r"ssl\.keystore\.password does not open .*client\.PKCS12"),
        (
            "JKS",
            {"ssl.key.password": "wrong-4711"},
            r"ssl\.key\.password is wrong for the private key in .*client\.JKS",
        ),
        ("JKS", {"ssl.key.password": None}, r"ssl\.keystore\.password is wrong for .* give ssl\.key\.password"),
        (
            "JKS",
            {"ssl.key.password": None, "ssl.keystore.password": None},
            r"ssl\.keystore\.password is missing: it must open .*client\.JKS",
        ),
    ],
)
def test_a_password_that_does_not_open_is_one_sentence_without_it(
    stores: Stores, kind: str, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(ottla.ConfigError, match=said) as refused:
        ottla.Producer("127.0.0.1:9", **settings(stores, kind, **more))
    for secret in ("wrong-4711", STORE_PASSWORD, KEY_PASSWORD):
        assert secret not in str(refused.value)


def test_a_store_that_lacks_what_it_is_for_is_told(stores: Stores, papers: Papers, tmp_path: Path) -> None:
    for kind in KINDS:
        no_key = settings(stores, kind, **{"ssl.keystore.location": str(stores.trust(kind))})
        with pytest.raises(ottla.ConfigError, match="is a store without a private key"):
            ottla.Producer("127.0.0.1:9", **no_key)
    for alias in ("one", "two"):
        stores.take(tmp_path / "several.jks", alias, STORE_PASSWORD)
    several = {"ssl.keystore.location": str(tmp_path / "several.jks"), "ssl.key.password": None}
    with pytest.raises(ottla.ConfigError, match=r"holds 2 private keys \(one, two\), and a client uses one"):
        ottla.Producer("127.0.0.1:9", **settings(stores, "JKS", **several))
    pem = {"ssl.truststore.location": str(papers.ca)}
    with pytest.raises(
        ottla.ConfigError, match=r"is not a JKS or PKCS12 store, so ssl\.truststore\.password opens not"
    ):
        ottla.Producer("127.0.0.1:9", **settings(stores, "JKS", **pem))
    pem = {"ssl.keystore.location": str(papers.client)}
    with pytest.raises(ottla.ConfigError, match=r"is not a JKS or PKCS12 store, so ssl\.keystore\.password opens not"):
        ottla.Producer("127.0.0.1:9", **settings(stores, "JKS", **pem))


def test_a_jks_store_that_is_cut_off_or_changed_anywhere_is_never_taken_for_whole(stores: Stores) -> None:
    content = stores.key("JKS").read_bytes()
    for size in range(len(content)):
        with pytest.raises((jks.Damaged, jks.WrongPassword)):
            jks.read_jks(content[:size], STORE_PASSWORD)
        with pytest.raises(jks.Damaged):
            jks.read_jks(content[:size], None)
    for place in range(0, len(content), 7):
        changed = bytearray(content)
        changed[place] ^= 0x40
        with pytest.raises(jks.WrongPassword):
            jks.read_jks(bytes(changed), STORE_PASSWORD)


def test_pkcs12_without_its_library_names_the_command(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization.pkcs12", None)
    with pytest.raises(ottla.MissingExtra, match=r"pip install 'ottla\[pkcs12\]'"):
        ottla.Producer("127.0.0.1:9", **settings(stores, "PKCS12"))
    ottla.Producer("127.0.0.1:9", **settings(stores, "JKS")).close()
