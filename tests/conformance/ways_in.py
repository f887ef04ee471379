"""The ways into both clusters beside the plain one: listeners by name, each opened alike, and a client's settings.

One certificate and one user serve all of them. `ELSEWHERE` shows the certificate of another host, `MUTUAL` wants one
of the client, `SHORT` has sessions end soon (KIP-368). Tokens are unsecured ones, as either cluster takes them where
nothing else is set up.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla import Listener
from ottla.connection import authentication
from ottla.connection.authentication import unsecured_token

from ..papers import Papers

USER, PASSWORD = "ada", "lovelace-0815"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
# The security protocol of each listener.
PROTOCOLS = {
    "SSL": "SSL",
    "ELSEWHERE": "SSL",
    "MUTUAL": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "SHORT": "SASL_SSL",
}
_SESSION_MS = 8000
# Seconds before a session ends, lest a machine that stalls lets it end; Apache Kafka refuses a second one within 1 s.
_RENEWED_AFTER = (0.14, 0.15)
_MODULES = "org.apache.kafka.common.security"
# How a client of Java's says who it is, by mechanism.
JAVA_LOGINS = {
    "PLAIN": f'{_MODULES}.plain.PlainLoginModule required username="{USER}" password="{PASSWORD}";',
    "SCRAM-SHA-512": f'{_MODULES}.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";',
    "OAUTHBEARER": f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{USER}";',
}
_BROKER_LOGINS = {
    "plain": f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
    "scram-sha-256": f"{_MODULES}.scram.ScramLoginModule required;",
    "scram-sha-512": f"{_MODULES}.scram.ScramLoginModule required;",
    "oauthbearer": f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
}


def embedded_listeners(papers: Papers) -> dict[str, Listener]:
    """The ways into the embedded cluster."""
    found = {"PLAINTEXT": Listener()}
    for name, protocol in PROTOCOLS.items():
        given: dict[str, Any] = {"protocol": protocol}
        if protocol.endswith("SSL"):
            given["certificate"] = papers.elsewhere if name == "ELSEWHERE" else papers.server
        if protocol.startswith("SASL"):
            given |= {"users": {USER: PASSWORD}, "sasl_mechanisms": MECHANISMS}
        if name == "MUTUAL":
            given |= {"client_auth": "required", "client_ca": papers.ca}
        if name == "SHORT":
            given["session_lifetime_ms"] = _SESSION_MS
        found[name] = Listener(**given)
    return found


def apache_settings(papers: Papers) -> dict[str, Any]:
    """Apache Kafka's settings for listeners of these names."""
    settings: dict[str, Any] = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": papers.server,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": papers.ca,
        "listener.name.elsewhere.ssl.keystore.type": "PEM",
        "listener.name.elsewhere.ssl.keystore.location": papers.elsewhere,
        "listener.name.mutual.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    }
    for mechanism, login in _BROKER_LOGINS.items():
        for name, protocol in PROTOCOLS.items():
            if protocol.startswith("SASL"):
                settings[f"listener.name.{name.lower()}.{mechanism}.sasl.jaas.config"] = login
        settings[f"listener.name.short.{mechanism}.connections.max.reauth.ms"] = _SESSION_MS
    return settings


def apache_users() -> list[str]:
    """StorageTool's arguments for the users of SCRAM, who are kept in the cluster's metadata."""
    users = [f"{name}=[name={USER},password={PASSWORD}]" for name in MECHANISMS if name.startswith("SCRAM")]
    return [word for user in users for word in ("--add-scram", user)]


@contextlib.contextmanager
def renewing_early() -> Iterator[None]:
    """Have our clients renew sessions of SHORT more than once a session."""
    with pytest.MonkeyPatch.context() as patch:
        for name, share in zip(("_RENEW_SOONEST", "_RENEW_LATEST"), _RENEWED_AFTER, strict=True):
            patch.setattr(authentication, name, share)
        yield


def settings_for(papers: Papers, listener: str, mechanism: str = "") -> dict[str, Any]:
    """What a client of ours is given to come in there."""
    protocol = PROTOCOLS.get(listener, listener)
    given: dict[str, Any] = {"security_protocol": protocol}
    if protocol.endswith("SSL"):
        given["ssl_truststore_location"] = str(papers.ca)
    if listener == "MUTUAL":
        given["ssl_keystore_location"] = str(papers.client)
    if mechanism == "OAUTHBEARER":
        given["sasl_oauthbearer_token_provider"] = lambda: unsecured_token({"sub": USER}, time.time())
    elif mechanism:
        given |= {"sasl_username": USER, "sasl_password": PASSWORD}
    return given | ({"sasl_mechanism": mechanism} if mechanism else {})
