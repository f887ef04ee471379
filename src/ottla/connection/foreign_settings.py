"""Settings of other clients: librdkafka (confluent-kafka), kafka-python, aiokafka.

Where such a name is given that is no setting of ottla, the error says what it is called here, where it is given
instead, or why it can be left out. Names are written with dots: kafka-python's `ssl_cafile` is `ssl.cafile` in this
file. Names that mean the same as in Java's client are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping

# Settings with another name here, with the unit or the value if that differs.
RENAMED: Mapping[str, str] = {
    # librdkafka
    "batch.num.messages": "batch.size (in bytes)",
    "compression.codec": "compression.type",
    "enable.gapless.guarantee": "enable.idempotence",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.max.bytes": "max.request.size",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "metadata.broker.list": "bootstrap.servers",
    "oauth.cb": "sasl.oauthbearer.token.provider (a function without arguments that returns the token)",
    "oauthbearer.token.refresh.cb": "sasl.oauthbearer.token.provider (a function that returns the token)",
    "partitioner": "partitioner.class",
    "partitioner.cb": "partitioner.class (a function of a column of keys and the cluster)",
    "queue.buffering.max.kbytes": "buffer.memory (in bytes)",
    "queue.buffering.max.ms": "linger.ms",
    "queued.max.messages.kbytes": "prefetch.max.bytes (in bytes)",
    "request.required.acks": "acks",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "socket.receive.buffer.bytes": "receive.buffer.bytes (-1 for the system's, not 0)",
    "socket.send.buffer.bytes": "send.buffer.bytes (-1 for the system's, not 0)",
    "socket.timeout.ms": "request.timeout.ms",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location (one PEM file with the certificate and its key)",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.location (one PEM file with the certificate and its key)",
    "ssl.key.pem": "ssl.keystore.key",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    # kafka-python and aiokafka
    "max.batch.size": "batch.size",
    "sasl.oauth.token.provider": "sasl.oauthbearer.token.provider (a function that returns the token)",
    "sasl.plain.password": "sasl.password",
    "sasl.plain.username": "sasl.username",
    "ssl.cafile": "ssl.truststore.location",
    "ssl.certfile": "ssl.keystore.location (one PEM file with the certificate and its key)",
    "ssl.check.hostname": "ssl.endpoint.identification.algorithm (https for True, empty for False)",
    "ssl.ciphers": "ssl.cipher.suites",
    "ssl.keyfile": "ssl.keystore.location (one PEM file with the certificate and its key)",
    "ssl.password": "ssl.key.password",
}

_LEAVE = "leave it out."
_ON_DELIVERY = "belongs to each record here: producer.send(..., on_delivery=function)."
_LOGGING = f"has no counterpart: ottla logs with Python's logging, under the logger ottla; {_LEAVE}"
_METRICS = f"has no counterpart: producer.metrics() returns all metrics, and metric.reporters receive them; {_LEAVE}"
_ERRORS = f"has no counterpart: send, flush and close raise errors, and the log has them; {_LEAVE}"
_SOCKETS = f"has no counterpart: ottla manages its sockets itself; {_LEAVE}"
_VERSIONS = f"has no counterpart: ottla asks each broker for its API versions; {_LEAVE}"
_METADATA = f"has no counterpart: metadata is requested for topics in use only; {_LEAVE}"
_GROUPS = f"is for consumer groups, which ottla does not have; {_LEAVE}"
_KERBEROS = f"is for Kerberos, which ottla does not support; {_LEAVE}"
_TLS = f'has no counterpart: the page "Security" of the documentation has the settings of TLS; {_LEAVE}'
_OWN_LOOP = f"has no counterpart; {_LEAVE}"

# Names that are no setting here: where they are given instead, or why they can be left out.
_ABOUT: tuple[tuple[str, str], ...] = (
    ("on.delivery dr.cb dr.msg.cb", _ON_DELIVERY),
    ("delivery.report.only.error go.delivery.reports go.delivery.report.fields", _ON_DELIVERY),
    ("error.cb throttle.cb background.event.cb enabled.events", _ERRORS),
    ("logger log.cb log.level log.queue log.thread.name log.connection.close debug", _LOGGING),
    ("stats.cb statistics.interval.ms metrics.enabled metric.group.prefix", _METRICS),
    ("socket.cb connect.cb closesocket.cb open.cb resolve.cb socket.keepalive.enable socket.nagle.disable", _SOCKETS),
    ("socket.max.fails socket.blocking.max.ms socket.options selector broker.address.ttl", _SOCKETS),
    ("broker.address.family", f"has no counterpart: all addresses of a name are tried in turn; {_LEAVE}"),
    ("socks5.proxy proxy.url", "has no counterpart: give brokers' addresses that can be reached without a proxy."),
    ("api.version api.version.auto.timeout.ms api.version.request api.version.request.timeout.ms", _VERSIONS),
    ("api.version.fallback.ms broker.version.fallback", _VERSIONS),
    (
        "topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.fast.cnt topic.metadata.refresh.sparse",
        _METADATA,
    ),
    ("topic.metadata.propagation.max.ms topic.blacklist", _METADATA),
    ("bootstrap.timeout.ms", f"has no counterpart: max.block.ms limits the wait for a topic; {_LEAVE}"),
    ("reconnect.backoff.jitter.ms", f"has no counterpart: reconnect.backoff.ms always has jitter; {_LEAVE}"),
    (
        "queue.buffering.max.messages",
        f"has no counterpart: buffer.memory is the limit, in bytes; {_LEAVE}",
    ),
    ("queue.buffering.backpressure.threshold queuing.strategy msg.order.cmp message.copy.max.bytes", _OWN_LOOP),
    (
        "sticky.partitioning.linger.ms",
        f"has no counterpart: records without a key change partition after batch.size bytes; {_LEAVE}",
    ),
    (
        "compression.level",
        "is set per codec here: compression.gzip.level, compression.lz4.level, compression.zstd.level.",
    ),
    ("receive.message.max.bytes", f"has no counterpart: memory grows with the bytes received; {_LEAVE}"),
    (
        "enable.ssl.certificate.verification",
        "has no counterpart: brokers' certificates are always checked; give the CA's certificate as "
        "ssl.truststore.location.",
    ),
    (
        "ssl.context ssl.crl.location ssl.crlfile ssl.curves.list ssl.sigalgs.list ssl.providers ssl.engine.location",
        _TLS,
    ),
    ("ssl.engine.id ssl.engine.callback.data ssl.certificate.verify.cb ssl.ca.certificate.stores ssl.ca", _TLS),
    ("ssl.key ssl.certificate https.ca.location https.ca.pem", _TLS),
    ("sasl.kerberos.principal sasl.kerberos.keytab sasl.kerberos.name sasl.kerberos.domain.name", _KERBEROS),
    (
        "sasl.oauthbearer.method",
        "has no counterpart: where sasl.oauthbearer.token.endpoint.url is given, tokens come from there; leave it out.",
    ),
    (
        "sasl.oauthbearer.extensions",
        'belongs into sasl.jaas.config: OAuthBearerLoginModule required extension_NAME="text";.',
    ),
    (
        "sasl.oauthbearer.config",
        "has no counterpart: give a function that returns the token as sasl.oauthbearer.token.provider, or "
        "sasl.oauthbearer.token.endpoint.url.",
    ),
    (
        "sasl.oauthbearer.metadata.authentication.type",
        "has no counterpart: give a function that returns the token as sasl.oauthbearer.token.provider.",
    ),
    (
        "enable.sasl.oauthbearer.unsecure.jwt",
        "has no counterpart: sasl.jaas.config with unsecuredLoginStringClaim_sub makes such tokens.",
    ),
    ("session.timeout.ms heartbeat.interval.ms max.poll.interval.ms group.protocol.type", _GROUPS),
    ("coordinator.query.interval.ms enable.auto.offset.store auto.commit.enable offset.store.method", _GROUPS),
    ("offset.store.path offset.store.sync.interval.ms offset.commit.cb rebalance.cb", _GROUPS),
    ("default.offset.commit.callback", _GROUPS),
    ("auto.offset.reset", 'belongs to a Reader: ottla.Reader(..., start="earliest").'),
    ("key.deserializer value.deserializer", "belongs to a Reader, and to its records()."),
    ("consumer.timeout.ms enable.partition.eof", 'belongs to a Reader: ottla.Reader(..., end="latest") ends there.'),
    ("queued.min.messages fetch.queue.backoff.ms fetch.error.backoff.ms consume.cb", _OWN_LOOP),
    ("consume.callback.max.messages enable.incremental.fetch.sessions", _OWN_LOOP),
    ("allow.auto.create.topics", "has no counterpart: create topics first, by ottla.Admin(...).create_topics."),
    (
        "interceptors plugin.library.paths",
        "has no counterpart: interceptor.classes takes Python classes instead.",
    ),
    ("builtin.features enable.random.seed internal.termination.signal opaque produce.offset.report", _OWN_LOOP),
    ("default.topic.conf kafka.client loop", _OWN_LOOP),
)
# Prefixes of settings that are not listed one by one.
_PREFIXES = (("go.", f"is for the Go client; {_LEAVE}"), ("dotnet.", f"is for the .NET client; {_LEAVE}"))


def told_of(name: str, dotted: str, known: frozenset[str]) -> str | None:
    """Return the error's text about another client's setting, None for other names; `known`: this client's settings."""
    if dotted in RENAMED:
        called, _, more = RENAMED[dotted].partition(" ")
        if called not in known:
            return f"{name} ({called} in Kafka) is not a setting of this client; {_LEAVE}"
        called = called.replace(".", "_") if "_" in name else called
        return f"{name} is called {called}{more and ' ' + more} here."
    for names, sentence in _ABOUT:
        if dotted in names.split():
            return f"{name} {sentence}"
    for prefix, sentence in _PREFIXES:
        if dotted.startswith(prefix):
            return f"{name} {sentence}"
    return None
