"""ApiVersions, versions 0 to 4: the APIs and versions this broker answers, as `VERSIONS` lists them.

A request in a newer version is answered in version 0 with UNSUPPORTED_VERSION and the same list, so that the client
can ask again (KIP-511); whoever decodes frames does that with `unsupported_version_response`. A client's software
name and version must look like names (KIP-511), else INVALID_REQUEST. One feature is advertised (KIP-584), from version
3 on: `transaction.version`, in force as the broker setting of that name says; by it clients choose how they run
transactions (KIP-890). That it goes from 0 to 2 is told from version 4 on: older clients stumble over a level of 0
(KAFKA-17011).

Produce is said to begin at version 0, as by Apache Kafka (KAFKA-18659): older librdkafka takes its absence for a
broker without gzip, snappy and lz4, and silently sends uncompressed. Nobody asks for so old a version.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ottla.broker.apis import PRODUCE, VERSIONS
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from ottla.broker.core import BrokerCore

_NAMES_FROM_VERSION = 3
_FEATURES_FROM_VERSION = 3
_LEVEL_0_FROM_VERSION = 4
_FEATURE = "transaction.version"


def handle(core: BrokerCore, request: Request, now_us: int) -> None:
    """Say which versions are spoken here."""
    message = request.message
    if request.version >= _NAMES_FROM_VERSION and not (
        _is_name(message.client_software_name) and _is_name(message.client_software_version)
    ):
        core.answer(request, ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST), now_us)
        return
    answer = ApiVersionsResponse(api_keys=_spoken())
    if request.version >= _FEATURES_FROM_VERSION:
        level = core.settings.transaction_version
        if request.version >= _LEVEL_0_FROM_VERSION:
            answer.supported_features = [SupportedFeatureKey(name=_FEATURE, min_version=0, max_version=2)]
        answer.finalized_features_epoch = max(0, core.image.version)
        if level:
            in_force = FinalizedFeatureKey(name=_FEATURE, max_version_level=level, min_version_level=level)
            answer.finalized_features = [in_force]
    core.answer(request, answer, now_us)


def unsupported_version_response() -> ApiVersionsResponse:
    """What to answer, in version 0, to an ApiVersions request whose version is not known."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_spoken())


@cache
def _spoken() -> list[ApiVersion]:
    # One list for all answers, which nobody changes: sixty objects for every connection cost more than the rest.
    return [
        ApiVersion(api_key=api_key, min_version=0 if api_key == PRODUCE else lowest, max_version=highest)
        for api_key, (lowest, highest) in VERSIONS.items()
    ]


def _is_name(text: str) -> bool:
    """Letters and digits, with dots and hyphens inside."""
    inner = text.replace(".", "").replace("-", "")
    return inner.isascii() and inner.isalnum() and text[0] not in ".-" and text[-1] not in ".-"
