"""The settings of `Producer` as keywords: what type checkers, editors and `help` show.

Written by tools/generate_settings.py from the table of settings; changes belong there. Nothing loads this at
run time: what is given is checked against the table itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, TypedDict

from ottla.clock import Clock
from ottla.connection.oauth_settings import OAuthBearerToken
from ottla.producer.cluster_view import ClusterView
from ottla.producer.figures import Metrics
from ottla.records.key_column import KeyColumn


class ProducerSettingsKeywords(TypedDict, total=False):
    """Every setting but `bootstrap_servers`; None counts as not given.

    client_id: The name brokers log and count this client under. Empty: producer-, consumer- or adminclient- with
        the transactional.id or, where there is none, a number that counts within the process. Default "".
    client_dns_lookup: use_all_dns_ips tries every address of a host name in turn;
        resolve_canonical_bootstrap_servers_only also replaces each bootstrap name by the canonical names of its
        addresses, on the thread that makes the client. Default use_all_dns_ips; use_all_dns_ips,
        resolve_canonical_bootstrap_servers_only.
    metadata_max_age_ms: How old metadata may grow before it is asked for again. Default 300000; 0 to 2^63-1.
    metadata_recovery_strategy: What to do when none of the brokers known can be reached: ask the bootstrap servers
        again (rebootstrap), or go on trying those that are known (none). Default rebootstrap; rebootstrap, none.
    metadata_recovery_rebootstrap_trigger_ms: With metadata.recovery.strategy=rebootstrap: after how long without an
        answer about metadata all brokers known are given up and the bootstrap servers asked again. Default 300000;
        0 to 2^63-1.
    metadata_max_idle_ms: After how long without a record for a topic its metadata is not kept up to date any more;
        the next send to it waits for it again. Default 300000; 5000 to 2^63-1.
    request_timeout_ms: How long an answer may take before the connection is given up. Default 30000; 1 to 2^31-1.
    reconnect_backoff_ms: The pause after a connection was lost; it doubles with each failure in a row. Given
        without reconnect.backoff.max.ms it stays the same. Default 50; 0 to 2^63-1.
    reconnect_backoff_max_ms: The longest pause between tries to connect to one broker. Default 1000; 0 to 2^63-1.
    retry_backoff_ms: The pause before a failed request is tried again; it doubles with each failure in a row.
        Default 100; 0 to 2^63-1.
    retry_backoff_max_ms: The longest pause before a failed request is tried again. Default 1000; 0 to 2^63-1.
    socket_connection_setup_timeout_ms: How long opening a connection may take; it doubles with each failure in a
        row, with a fifth of jitter. Default 10000; 1 to 2^63-1.
    socket_connection_setup_timeout_max_ms: The longest that opening a connection may take. Default 30000; 1 to
        2^63-1.
    bootstrap_refused_timeout_ms: How long all bootstrap addresses may refuse connections before a reader or admin
        client that met no broker yet gives up (ottla's own; longer in the tasks of Spark). Default 5000; 0 to
        2^31-1.
    connections_max_idle_ms: After how long without a request a connection is closed (before the broker does); -1
        for never. Default 540000; 1 to 2^63-1, or -1.
    send_buffer_bytes: The socket's send buffer (SO_SNDBUF); -1 leaves it to the operating system, which lets it
        grow with the connection (Kafka's own clients take 131072). Default -1; -1 to 2^31-1.
    receive_buffer_bytes: The socket's receive buffer (SO_RCVBUF); -1 leaves it to the operating system, which lets
        it grow with the connection (Kafka's own clients take 32768 to send, 65536 to read). Default -1; -1 to
        2^31-1.
    clock: An ottla.Clock that the client goes by in place of the machine's clock, for tests that stop time or set
        it ahead (ottla's own). No default.
    acks: Who must have a batch before it counts: nobody (0), the leader (1), all replicas in sync (all). With 0
        nobody is asked: what a broker refuses or never gets is lost without an error, offsets are not known, and
        nothing but a full socket slows the producer down. Default all; all, -1, 0, 1.
    enable_idempotence: Number the batches, so that one that is sent again is stored once. Default true.
    retries: How often a batch is sent again, within delivery.timeout.ms. Default 2^31-1; 0 to 2^31-1.
    max_in_flight_requests_per_connection: The most requests without an answer on one connection. Batches that are
        not full use fewer where more would only wait at the broker. With acks=0 there is no limit. Default 5; 1 to
        2^31-1.
    delivery_timeout_ms: How long a batch may take, from its first record to its outcome, retries included; then it
        is given up. Default 120000; 0 to 2^31-1.
    linger_ms: How long a batch waits for more records. After that it is sent with the next request, and takes
        records until then. Default 5; 0 to 2^63-1.
    batch_size: The bytes at which a batch is full, after compression (estimated from earlier batches). Default
        16384; 0 to 2^31-1.
    max_request_size: The most bytes of batches in one request, and of one record. Default 1048576; 0 to 2^31-1.
    buffer_memory: The most memory for records without an outcome, in bytes. When it is full, send waits; calls are
        served in the order in which they came. Default 33554432; 0 to 2^63-1.
    max_block_ms: How long one call of send may wait in all, for metadata and for memory. In send_table it is
        counted for each batch. Transaction calls wait as long for an answer. Default 60000; 0 to 2^63-1.
    compression_type: How batches are compressed. Default none; none, gzip, snappy, lz4, zstd.
    compression_gzip_level: gzip's level; -1 leaves it to the library. Default -1; 1 to 9, or -1.
    compression_lz4_level: lz4's level. Default 9; 1 to 17.
    compression_zstd_level: zstd's level. Default 3; -131072 to 22.
    partitioner_class: How a record gets its partition: a name, or a function that is given a column of keys and a
        view of the cluster and returns a column of partitions. Default default.
    partitioner_adaptive_partitioning_enable: Give partitions with long queues fewer of the records without a key.
        Default true.
    partitioner_availability_timeout_ms: After how long with batches waiting and none taken a broker's partitions
        get no more records without a key; 0: never. Default 0; 0 to 2^63-1.
    partitioner_ignore_keys: Spread records with a key like those without one. Default false.
    key_serializer: What makes bytes of a key given to send: a name such as json or long, a function of the object,
        or an object with serialize(topic, object); without one, keys are bytes or text. No default.
    value_serializer: The same for values; None stays a tombstone. No default.
    interceptor_classes: Objects (or classes) with on_send, on_batch or on_ack, which see records and batches pass.
        No default.
    transactional_id: The name by which a producer's transactions go on after a restart; an older producer of that
        name is fenced. No default.
    transaction_timeout_ms: How long a transaction may stay open before its coordinator aborts it. Default 60000; 1
        to 2^31-1.
    security_protocol: What the brokers' listener speaks: TLS (SSL), authentication (SASL_PLAINTEXT), both
        (SASL_SSL), or neither. Default PLAINTEXT; PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL.
    ssl_truststore_location: A file (PEM, JKS or PKCS12) with the CA certificates to trust; without it those that
        the operating system trusts. No default.
    ssl_truststore_type: The kind of truststore; without effect, since the file shows it itself. Default PEM; PEM,
        JKS, PKCS12.
    ssl_truststore_password: What opens ssl.truststore.location where that is JKS or PKCS12. No default.
    ssl_truststore_certificates: The CA certificates to trust as PEM text, instead of ssl.truststore.location. No
        default.
    ssl_keystore_location: A file (PEM, JKS or PKCS12) with the client's private key, its certificate, and the CA
        certificates that signed it. No default.
    ssl_keystore_type: The kind of keystore; without effect, since the file shows it itself. Default PEM; PEM, JKS,
        PKCS12.
    ssl_keystore_password: What opens ssl.keystore.location where that is JKS or PKCS12. No default.
    ssl_keystore_certificate_chain: The client's certificate and the CA certificates that signed it, as PEM text;
        needs ssl.keystore.key. No default.
    ssl_keystore_key: The client's private key as PEM text; needs ssl.keystore.certificate.chain. No default.
    ssl_key_password: The password of the client's private key, if it is encrypted; for JKS ssl.keystore.password
        unless given. No default.
    ssl_endpoint_identification_algorithm: https checks that the certificate was made out to the broker's host name;
        empty leaves that out. Default https; https, .
    ssl_protocol: The newest version of TLS to speak. Default TLSv1.3; TLSv1.3, TLSv1.2, TLS.
    ssl_enabled_protocols: The versions of TLS that may be spoken. Default ('TLSv1.2', 'TLSv1.3').
    ssl_cipher_suites: The cipher suites of TLS 1.2 to offer, by Java's or OpenSSL's names; without a name of TLS
        1.3 (TLS_AES...) TLS 1.3 is not spoken, with one all of its suites are offered. Empty: OpenSSL's choice.
        Default ().
    sasl_mechanism: How the client authenticates. Java's default is GSSAPI, which ottla does not have: it must be
        given for SASL. No default; PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.
    sasl_jaas_config: User and password as Java clients write them: `...ScramLoginModule required username=...
        password=...;`. No default.
    sasl_username: The user of PLAIN and SCRAM (ottla's own, as in librdkafka). No default.
    sasl_password: The password of PLAIN and SCRAM (ottla's own, as in librdkafka). No default.
    sasl_oauthbearer_token_provider: A callable that returns a token for OAUTHBEARER, text or
        ottla.OAuthBearerToken, or the text module:function that names one; it is called on a thread of its own
        (ottla's own; Java names a class in sasl.login.callback.handler.class). No default.
    sasl_oauthbearer_token_endpoint_url: The URL that gives tokens for OAUTHBEARER for a client's id and secret
        (OAuth's client credentials); http or https (Java also takes files). No default.
    sasl_oauthbearer_client_credentials_client_id: The client's id for the token endpoint (clientId in
        sasl.jaas.config). No default.
    sasl_oauthbearer_client_credentials_client_secret: The client's secret for the token endpoint (clientSecret in
        sasl.jaas.config). No default.
    sasl_oauthbearer_scope: What the token is to be good for (scope in sasl.jaas.config). No default.
    sasl_oauthbearer_header_urlencode: Whether id and secret are URL-encoded before they are sent, as RFC 6749 has
        it and some endpoints do not. Default false.
    sasl_login_callback_handler_class: Without effect; Java's clients need it for a token endpoint, so the name of
        Kafka's own class may stand here. No default.
    sasl_login_connect_timeout_ms: How long a connection to the token endpoint may take (Java: no limit). Default
        10000; 1 to 2^31-1.
    sasl_login_read_timeout_ms: How long the token endpoint may be silent (Java: no limit). Default 10000; 1 to
        2^31-1.
    sasl_login_retry_backoff_ms: The first pause before the token endpoint is asked again; it doubles each time.
        Default 100; 0 to 2^31-1.
    sasl_login_retry_backoff_max_ms: For how long a token endpoint that cannot be reached, or answers 5xx, 408 or
        429, is asked again. Default 10000; 0 to 2^31-1.
    sasl_login_refresh_window_factor: The share of an OAUTHBEARER token's time after which a new one is asked for.
        Default 0.8; 0.5 to 1.0.
    metrics_sample_window_ms: How long a sample is; rates, averages and maxima are those of the last samples. Also
        how often metric.reporters are called, and what limits the producer is looked at for the log. Default 30000;
        1 to 2^63-1.
    metrics_num_samples: How many samples are kept beside the one under way. Default 2; 1 to 2^31-1.
    metrics_recording_level: Which metrics are recorded. All of a producer's are INFO, here and in Java, so every
        level records the same. Default INFO; INFO, DEBUG, TRACE.
    metric_reporters: Functions that get the producer's metrics every metrics.sample.window.ms and when it closes,
        on a thread of their own; what they raise is logged. Java takes class names. No default.
    enable_metrics_push: Push the producer's metrics to brokers that ask for them, which those do that have a plugin
        for it. Default true.
    """

    client_id: str | None
    client_dns_lookup: str | None
    metadata_max_age_ms: int | str | None
    metadata_recovery_strategy: str | None
    metadata_recovery_rebootstrap_trigger_ms: int | str | None
    metadata_max_idle_ms: int | str | None
    request_timeout_ms: int | str | None
    reconnect_backoff_ms: int | str | None
    reconnect_backoff_max_ms: int | str | None
    retry_backoff_ms: int | str | None
    retry_backoff_max_ms: int | str | None
    socket_connection_setup_timeout_ms: int | str | None
    socket_connection_setup_timeout_max_ms: int | str | None
    bootstrap_refused_timeout_ms: int | str | None
    connections_max_idle_ms: int | str | None
    send_buffer_bytes: int | str | None
    receive_buffer_bytes: int | str | None
    clock: Clock | None
    acks: int | str | None
    enable_idempotence: bool | str | None
    retries: int | str | None
    max_in_flight_requests_per_connection: int | str | None
    delivery_timeout_ms: int | str | None
    linger_ms: int | str | None
    batch_size: int | str | None
    max_request_size: int | str | None
    buffer_memory: int | str | None
    max_block_ms: int | str | None
    compression_type: str | None
    compression_gzip_level: int | str | None
    compression_lz4_level: int | str | None
    compression_zstd_level: int | str | None
    partitioner_class: str | Callable[[KeyColumn, ClusterView], Any] | None
    partitioner_adaptive_partitioning_enable: bool | str | None
    partitioner_availability_timeout_ms: int | str | None
    partitioner_ignore_keys: bool | str | None
    key_serializer: Any | None
    value_serializer: Any | None
    interceptor_classes: Sequence[Any] | None
    transactional_id: str | None
    transaction_timeout_ms: int | str | None
    security_protocol: str | None
    ssl_truststore_location: str | PathLike[str] | None
    ssl_truststore_type: str | None
    ssl_truststore_password: str | None
    ssl_truststore_certificates: str | None
    ssl_keystore_location: str | PathLike[str] | None
    ssl_keystore_type: str | None
    ssl_keystore_password: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_keystore_key: str | None
    ssl_key_password: str | None
    ssl_endpoint_identification_algorithm: str | None
    ssl_protocol: str | None
    ssl_enabled_protocols: str | Sequence[str] | None
    ssl_cipher_suites: str | Sequence[str] | None
    sasl_mechanism: str | None
    sasl_jaas_config: str | None
    sasl_username: str | None
    sasl_password: str | None
    sasl_oauthbearer_token_provider: str | Callable[[], str | OAuthBearerToken] | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_header_urlencode: bool | str | None
    sasl_login_callback_handler_class: str | None
    sasl_login_connect_timeout_ms: int | str | None
    sasl_login_read_timeout_ms: int | str | None
    sasl_login_retry_backoff_ms: int | str | None
    sasl_login_retry_backoff_max_ms: int | str | None
    sasl_login_refresh_window_factor: float | str | None
    metrics_sample_window_ms: int | str | None
    metrics_num_samples: int | str | None
    metrics_recording_level: str | None
    metric_reporters: Callable[[Metrics], object] | Sequence[Callable[[Metrics], object]] | None
    enable_metrics_push: bool | str | None
