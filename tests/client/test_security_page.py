"""The code of docs/security.md runs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from tests.token_server import CLIENT_ID, CLIENT_SECRET, TokenServer

import ottla
from ottla import Listener
from ottla.connection.authentication import unsecured_token

pytest.importorskip("scramp")

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What stands for the names of the page."""
    folder = tmp_path_factory.mktemp("papers")
    authority = trustme.CA()
    server, client, ca = folder / "server.pem", folder / "client.pem", folder / "ca.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(server))
    authority.issue_cert("ada@ottla.example").private_key_and_cert_chain_pem.write_to_path(str(client))
    authority.cert_pem.write_to_path(str(ca))
    tls: dict[str, Any] = {"certificate": server}
    listeners = {
        "kafka": Listener(protocol="SSL", **tls),
        "mutual": Listener(protocol="SSL", client_auth="required", client_ca=ca, **tls),
        "sasl": Listener(
            protocol="SASL_SSL",
            users={"ada": "lovelace"},
            sasl_mechanisms=["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"],
            **tls,
        ),
    }
    with TokenServer() as server_of_tokens, ottla.Cluster(brokers=1, listeners=listeners) as cluster:
        cluster.create_topic("flights")
        addresses = {f"{name}.example:9093": cluster.bootstrap_servers_of(name) for name in listeners}
        addresses |= {"https://idp.example/oauth2/token": server_of_tokens.url, "flights-job": CLIENT_ID}
        yield {**addresses, "/etc/kafka/ca.pem": str(ca), "/etc/kafka/client.pem": str(client)}


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
def test_a_block_of_the_page_runs(block: str, places: dict[str, str]) -> None:
    for name, place in places.items():
        block = block.replace(name, place)

    def ask_the_identity_provider() -> dict[str, Any]:
        token = unsecured_token({"sub": "ada"}, time.time())
        return {"access_token": token.value, "expires_at": token.expires_at_s}

    given = {"ask_the_identity_provider": ask_the_identity_provider, "read_from_vault": lambda name: CLIENT_SECRET}
    exec(compile(block, "security.md", "exec"), given)
