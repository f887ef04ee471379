"""The list of APIs and versions (`VERSIONS`) that a broker answers ApiVersions with, also to unknown versions of it.

In it Produce begins at version 0, as in Apache Kafka's (KAFKA-18659): without that, older librdkafka assumes a broker
without gzip, snappy and lz4, and silently sends uncompressed. No client uses so old a version.
"""

from __future__ import annotations

from functools import cache

from ottla.broker.apis import OF_CLIENT_METRICS, VERSIONS
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import PRODUCE
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse


@cache
def spoken_versions(*, takes_client_metrics: bool = False) -> list[ApiVersion]:
    """Every API with its versions; those by which clients push metrics only where there is a subscription."""
    # One list for all answers, which is never changed: sixty objects for every connection cost more than the rest.
    return [
        ApiVersion(api_key=api_key, min_version=0 if api_key == PRODUCE else lowest, max_version=highest)
        for api_key, (lowest, highest) in VERSIONS.items()
        if takes_client_metrics or api_key not in OF_CLIENT_METRICS
    ]


def unsupported_version_response() -> ApiVersionsResponse:
    """What to answer, in version 0, to an ApiVersions request whose version is not known (KIP-511)."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=spoken_versions())
