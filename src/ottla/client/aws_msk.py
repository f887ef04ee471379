"""Tokens for Amazon MSK clusters with IAM: name `ottla.client.aws_msk:iam_token` as the token provider.

Amazon's own signer (extra `aws`) makes them on this machine, without any request: a token is a signed URL that is valid
for 15 minutes. Credentials come from where Amazon's tools find them: environment, profile, role of the machine.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from ottla.connection.oauth_settings import OAuthBearerToken
from ottla.errors import MissingExtra, UserMistake

try:
    _signer: Any = import_module("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
except ImportError:
    raise MissingExtra(
        "ottla.client.aws_msk needs the package aws-msk-iam-sasl-signer-python: pip install 'ottla[aws]'."
    ) from None


def iam_token() -> OAuthBearerToken:
    """A token for one region's clusters, by the credentials of Amazon's tools; UserMistake where either is missing."""
    try:
        value, expires_at_ms = _signer.generate_auth_token(_region())
    except (AttributeError, ValueError):
        # The signer raises these where there are no credentials, or empty ones.
        raise UserMistake(
            "ottla.client.aws_msk found no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            "AWS_PROFILE, or give this machine a role (in Spark every executor, too)"
        ) from None
    return OAuthBearerToken(value, expires_at_ms / 1000)


def _region() -> str:
    found = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not found:
        found = import_module("botocore.session").Session().get_config_variable("region")
    if not found:
        raise UserMistake(
            "ottla.client.aws_msk does not know the cluster's region: set AWS_REGION, as in AWS_REGION=eu-central-1 "
            "(in Spark for the executors, too: spark.executorEnv.AWS_REGION)"
        )
    return str(found)
