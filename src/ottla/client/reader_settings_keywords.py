"""The settings of `Reader` and `Admin` as keywords: what type checkers, editors and `help` show.

Written by tools/generate_settings.py from the table of settings; changes belong there. Nothing loads this at
run time: what is given is checked against the table itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, TypedDict

from ottla.clock import Clock
from ottla.connection.oauth_settings import OAuthBearerToken


class ReaderSettingsKeywords(TypedDict, total=False):
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
    key_deserializer: What `Reader.records` makes of a key's bytes: a name such as json or long, a function of them,
        or an object with deserialize(topic, bytes); without one, keys are bytes. No default.
    value_deserializer: The same for values; None stays None. No default.
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
    isolation_level: read_committed leaves out records of aborted and of unfinished transactions. Default
        read_uncommitted; read_uncommitted, read_committed.
    fetch_min_bytes: How many bytes a broker gathers before it answers, fetch.max.wait.ms at most. Default 1; 0 to
        2^31-1.
    fetch_max_wait_ms: How long a broker may hold back an answer that has fewer than fetch.min.bytes. Default 500; 0
        to 2^31-1.
    fetch_max_bytes: The size of one answer; a single larger batch still comes through. Default 52428800; 1 to
        2^31-1.
    max_partition_fetch_bytes: The size of one partition's share in an answer; a single larger batch still comes
        through. Default 8388608; 1 to 2^31-1.
    prefetch_max_bytes: About how many bytes are fetched ahead, for all partitions together (ottla's own). Default
        67108864; 1 to 2^31-1.
    default_api_timeout_ms: How long a partition may stay out of reach before reading it fails. Default 60000; 1 to
        2^31-1.
    client_rack: Where this client is, by the name that the brokers near it have in broker.rack: leaders whose
        brokers have a replica selector name a replica there to read from. Default "".
    decompressed_batch_max_bytes: How much may come out of one compressed batch, since few bytes can be made to hold
        gigabytes (ottla's own). Default 268435456; 1 to 2^31-1.
    check_crcs: Whether the CRC of every batch is checked. Default true.
    """

    client_id: str | None
    client_dns_lookup: str | None
    metadata_max_age_ms: int | str | None
    metadata_recovery_strategy: str | None
    metadata_recovery_rebootstrap_trigger_ms: int | str | None
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
    key_deserializer: Any | None
    value_deserializer: Any | None
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
    isolation_level: str | None
    fetch_min_bytes: int | str | None
    fetch_max_wait_ms: int | str | None
    fetch_max_bytes: int | str | None
    max_partition_fetch_bytes: int | str | None
    prefetch_max_bytes: int | str | None
    default_api_timeout_ms: int | str | None
    client_rack: str | None
    decompressed_batch_max_bytes: int | str | None
    check_crcs: bool | str | None
