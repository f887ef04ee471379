"""Tokens for Amazon MSK, made with credentials that are nobody's; nobody is asked for anything."""

from __future__ import annotations

import sys
import time
from base64 import urlsafe_b64decode
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

import ottla
from ottla.client.security import Security
from ottla.connection.settings import ConnectionSettings

pytest.importorskip("aws_msk_iam_sasl_signer")

from ottla.client.aws_msk import iam_token

PLACE = "ottla.client.aws_msk:iam_token"


@pytest.fixture(autouse=True)
def nowhere_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Credentials of this machine, and its role, are not looked for."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def test_a_token_is_a_signed_url_of_the_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-0815")
    token = iam_token()
    url = urlsplit(urlsafe_b64decode(token.value + "=" * (-len(token.value) % 4)).decode())
    query = {name: texts[0] for name, texts in parse_qs(url.query).items()}
    assert (url.scheme, url.netloc, url.path) == ("https", "kafka.eu-central-1.amazonaws.com", "/")
    assert query["Action"] == "kafka-cluster:Connect"
    assert query["X-Amz-Algorithm"] == "AWS4-HMAC-SHA256"
    assert query["X-Amz-Credential"].startswith("AKIDEXAMPLE/")
    assert query["X-Amz-Credential"].endswith("/eu-central-1/kafka-cluster/aws4_request")
    assert (query["X-Amz-Expires"], query["X-Amz-SignedHeaders"]) == ("900", "host")
    assert len(query["X-Amz-Signature"]) == 64
    assert "secret-0815" not in url.query
    assert token.expires_at_s is not None
    assert 895 <= token.expires_at_s - time.time() <= 901


def test_a_client_gets_such_tokens_by_one_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-0815")
    assert given_to_a_client()[0] is not None


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "x"}, "does not know the cluster's region: set"),
        ({"AWS_REGION": "eu-central-1"}, "found no AWS credentials: set AWS_ACCESS_KEY_ID"),
    ],
)
def test_what_is_missing_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], said: str
) -> None:
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    token, why = given_to_a_client()
    assert token is None
    assert said in why


def test_a_missing_package_is_told_when_the_client_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer.MSKAuthTokenProvider", None)
    monkeypatch.delitem(sys.modules, "ottla.client.aws_msk")
    with pytest.raises(ottla.MissingExtra, match=r"pip install 'ottla\[aws\]'"):
        given_to_a_client()


def given_to_a_client() -> tuple[object, str]:
    """What a client's connection would be given: a token, or why there is none."""
    given = {
        "bootstrap.servers": "b-1.example.kafka.eu-central-1.amazonaws.com:9098",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.provider": PLACE,
    }
    security = Security(ConnectionSettings(given).security)
    answers: list[tuple[object, str]] = []
    security._ask(lambda token, why: answers.append((token, why)))
    return answers[0]
