"""What a properties file says of security, as ottla's clients and the others take it.

Nothing else of the file is used: what decides the speed is the same for all clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ottla.connection.security_settings import SECURITY_SETTINGS
from ottla.producer.settings import ProducerSettings

_PEM = b"-----BEGIN"
_LOOK_BYTES = 1 << 16


def security_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of a client's settings by keyword, those about security."""
    keywords = {row.keyword for row in SECURITY_SETTINGS}
    return {name: value for name, value in settings.items() if name in keywords}


def for_others(settings: Mapping[str, Any]) -> dict[str, str] | str:
    """The same under librdkafka's names; or, as the end of a sentence, the settings that only ottla's clients have."""
    security = ProducerSettings({"bootstrap_servers": "localhost:9092", **settings}).connection.security
    told = {"security.protocol": security.protocol}
    if security.is_sasl:
        if security.tokens is not None or security.username is None or security.password is None:
            return f"sasl.mechanism={security.mechanism}"
        mechanism = str(security.mechanism)
        told |= {"sasl.mechanism": mechanism, "sasl.username": security.username, "sasl.password": security.password}
    if security.is_tls:
        if security.keystore_location or security.keystore_key:
            return "a keystore"
        if security.truststore_certificates:
            return "ssl.truststore.certificates"
        if security.truststore_location:
            if not _is_pem(Path(security.truststore_location)):
                return "a truststore that is not PEM"
            told["ssl.ca.location"] = security.truststore_location
        if not security.checks_host_name:
            told["ssl.endpoint.identification.algorithm"] = "none"
    return told


def for_kafka_python(told: Mapping[str, str]) -> dict[str, Any]:
    """What `for_others` gives, under kafka-python's names."""
    names = {
        "sasl.username": "sasl_plain_username",
        "sasl.password": "sasl_plain_password",
        "ssl.ca.location": "ssl_cafile",
    }
    given: dict[str, Any] = {names.get(name, name.replace(".", "_")): value for name, value in told.items()}
    if given.pop("ssl_endpoint_identification_algorithm", None) is not None:
        given["ssl_check_hostname"] = False
    return given


def _is_pem(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _PEM in file.read(_LOOK_BYTES)
    except OSError:
        # The client that connects says what is wrong with the file.
        return True
