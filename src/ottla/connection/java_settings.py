"""Java's security settings that have no meaning here, each with a sentence about what to do instead."""

from __future__ import annotations

from collections.abc import Mapping

HOW_TO_GET_TOKENS = (
    "give a callable as sasl.oauthbearer.token.provider (as text: module:function), or "
    "sasl.oauthbearer.token.endpoint.url with sasl.oauthbearer.client.credentials.client.id and "
    "sasl.oauthbearer.client.credentials.client.secret"
)
_JAVA_CLASS = "names a Java class, which Python cannot load"
_KERBEROS = "is for Kerberos (GSSAPI), which ottla does not have; take SCRAM, PLAIN, OAUTHBEARER or TLS certificates."

NOT_IN_PYTHON: Mapping[str, str] = {
    "ssl.provider": "chooses among Java's security providers; ottla uses OpenSSL: leave it out.",
    "security.providers": "lists Java's security providers; ottla uses OpenSSL: leave it out.",
    "ssl.keymanager.algorithm": "chooses among Java's key managers; ottla uses OpenSSL: leave it out.",
    "ssl.trustmanager.algorithm": "chooses among Java's trust managers; ottla uses OpenSSL: leave it out.",
    "ssl.secure.random.implementation": "chooses among Java's random numbers; OpenSSL has its own: leave it out.",
    "ssl.engine.factory.class": f"{_JAVA_CLASS}; the other ssl settings say all that ottla's TLS can do.",
    "sasl.client.callback.handler.class": f"{_JAVA_CLASS}; give sasl.username and sasl.password, or for AWS MSK "
    "sasl.mechanism=OAUTHBEARER with sasl.oauthbearer.token.provider=ottla.client.aws_msk:iam_token.",
    "sasl.login.class": f"{_JAVA_CLASS}; {HOW_TO_GET_TOKENS}.",
    "sasl.login.refresh.window.jitter": "spreads the refreshes of Java's login thread; ottla asks for a token when a "
    "connection needs one: leave it out.",
    "sasl.login.refresh.min.period.seconds": "paces Java's login thread; ottla asks for a token when a connection "
    "needs one: leave it out.",
    "sasl.login.refresh.buffer.seconds": "paces Java's login thread; ottla asks for a token when a connection needs "
    "one: leave it out.",
    "sasl.kerberos.service.name": _KERBEROS,
    "sasl.kerberos.kinit.cmd": _KERBEROS,
    "sasl.kerberos.min.time.before.relogin": _KERBEROS,
    "sasl.kerberos.ticket.renew.jitter": _KERBEROS,
    "sasl.kerberos.ticket.renew.window.factor": _KERBEROS,
}
# The other settings with this prefix are for Java's own ways to fetch and check tokens.
_OAUTH_PREFIX = "sasl.oauthbearer."


def not_in_python(name: str) -> str | None:
    """Return what to do instead of one of Java's security settings that has no meaning here; None for other names."""
    said = NOT_IN_PYTHON.get(name)
    if said is None and name.startswith(_OAUTH_PREFIX):
        said = f"is for a way of Java's to make or check tokens that ottla does not have; {HOW_TO_GET_TOKENS}."
    return None if said is None else f"{name} {said}"
