"""ApiVersions, versions 0 to 4: the APIs and versions this broker answers, as `VERSIONS` lists them.

A request in a newer version is answered in version 0 with UNSUPPORTED_VERSION and the same list, so that the client
can ask again (KIP-511), by the request channel or by the code that decodes frames (`spoken_versions.py`). A client's
software name and version must be letters and digits, with dots and hyphens inside (KIP-511), else INVALID_REQUEST. From
version 3 on the answer has the levels of two features (KIP-584), which are the broker settings of the same names:
`transaction.version`, by which clients choose how they run transactions (KIP-890), and `group.version`, which allows
consumer groups (KIP-848). The range of levels, which begins at 0, is in the answer from version 4 on: older clients
fail on a level of 0 (KAFKA-17011).
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request
from ottla.broker.settings import BrokerSettings
from ottla.broker.spoken_versions import spoken_versions
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey

_NAMES_FROM_VERSION = 3
_FEATURES_FROM_VERSION = 3
_LEVEL_0_FROM_VERSION = 4
# Feature -> its highest level.
_FEATURES = {"group.version": 1, "transaction.version": 2}


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Answer with the versions, or with INVALID_REQUEST."""
    message = request.message
    if request.version >= _NAMES_FROM_VERSION and not (
        _is_name(message.client_software_name) and _is_name(message.client_software_version)
    ):
        broker.answer(request, ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST), now_us)
        return
    if request.version >= _NAMES_FROM_VERSION and request.client is not None:
        request.client.software_name = message.client_software_name
        request.client.software_version = message.client_software_version
    answer = ApiVersionsResponse(api_keys=spoken_versions(takes_client_metrics=bool(broker.image.client_metrics)))
    if request.version >= _FEATURES_FROM_VERSION:
        if request.version >= _LEVEL_0_FROM_VERSION:
            answer.supported_features = [
                SupportedFeatureKey(name=name, min_version=0, max_version=highest)
                for name, highest in _FEATURES.items()
            ]
        answer.finalized_features_epoch = max(0, broker.image.version)
        answer.finalized_features = [
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in feature_levels(broker.settings).items()
            if level
        ]
    broker.answer(request, answer, now_us)


def feature_levels(settings: BrokerSettings) -> dict[str, int]:
    """Feature -> the level in force."""
    return {"group.version": settings.group_version, "transaction.version": settings.transaction_version}


def _is_name(text: str) -> bool:
    """Letters and digits, with dots and hyphens inside."""
    inner = text.replace(".", "").replace("-", "")
    return inner.isascii() and inner.isalnum() and text[0] not in ".-" and text[-1] not in ".-"
