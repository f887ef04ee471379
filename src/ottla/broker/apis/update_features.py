"""UpdateFeatures, versions 0 to 2: refused, since levels of features are broker settings here.

The level that a feature has already is accepted. Up to version 1 each feature has its own result; from version 2 on one
that cannot be changed is the error of the whole request, as in Apache Kafka.
"""

from __future__ import annotations

from ottla.broker.apis.api_versions import feature_levels
from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.update_features import UpdatableFeatureResult, UpdateFeaturesResponse

_WHOLE_FROM_VERSION = 2


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Look at each, and change none."""
    levels = feature_levels(broker.settings)
    results = []
    for update in request.message.feature_updates:
        level = levels.get(update.feature)
        if level is None:
            detail = f"this cluster has no feature {update.feature!r}; it has {' and '.join(levels)}"
        elif update.max_version_level != level:
            detail = f"{update.feature} is {level}, a broker setting: start the cluster with another one"
        else:
            results.append(UpdatableFeatureResult(feature=update.feature, error_message=None))
            continue
        code = ErrorCode.INVALID_UPDATE_VERSION
        results.append(UpdatableFeatureResult(feature=update.feature, error_code=code, error_message=detail))
    response = UpdateFeaturesResponse(error_message=None, results=results)
    refused = [result for result in results if result.error_code]
    if request.version >= _WHOLE_FROM_VERSION:
        response.results = []
        if refused:
            response.error_code, response.error_message = refused[0].error_code, refused[0].error_message
    broker.answer(request, response, now_us)
