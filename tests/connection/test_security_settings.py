"""security.protocol, ssl.* and sasl.*: what goes together, what Java writes, and that secrets stay secret."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.connection.jaas import parse_jaas
from ottla.connection.java_settings import not_in_python
from ottla.connection.kafka_settings import KAFKA_SETTINGS
from ottla.connection.security_settings import SECURITY_SETTINGS, SecuritySettings
from ottla.connection.settings import CONNECTION_SETTINGS, ConnectionSettings
from ottla.errors import ConfigError

SECRET = "lovelace;=\"quoted'"
PLAIN_LINE = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ada" password="x y=;\\"z";'


def security(**given: Any) -> SecuritySettings:
    return ConnectionSettings({"bootstrap_servers": "one:9092", **given}).security


def sasl(**given: Any) -> SecuritySettings:
    return security(security_protocol="SASL_SSL", **given)


def test_the_default_is_plaintext():
    settings = security()
    assert (settings.protocol, settings.is_tls, settings.is_sasl) == ("PLAINTEXT", False, False)


def test_every_security_setting_of_kafka_is_known_or_told_about():
    known = {row.name for row in CONNECTION_SETTINGS}
    for name in KAFKA_SETTINGS:
        if name.startswith(("ssl.", "sasl.", "security.")) and name not in known:
            said = not_in_python(name)
            assert said is not None, name
            assert said.startswith(name)
            with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
                security(**{name: "x"})


def test_words_may_come_in_lower_case_as_in_java():
    settings = security(
        **{"security.protocol": "sasl_ssl", "sasl.mechanism": "plain", "sasl.username": "ada"}, sasl_password="x"
    )
    assert (settings.protocol, settings.mechanism) == ("SASL_SSL", "PLAIN")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_user_and_password_by_librdkafkas_names(mechanism):
    settings = sasl(sasl_mechanism=mechanism, sasl_username="ada", sasl_password=SECRET)
    assert (settings.username, settings.password) == ("ada", SECRET)


def test_a_password_keeps_its_spaces():
    assert sasl(sasl_mechanism="PLAIN", sasl_username="ada", sasl_password=" x ").password == " x "


@pytest.mark.parametrize(
    "line",
    [
        PLAIN_LINE,
        '  some.package.PlainLoginModule   REQUIRED\n username=ada\n password="x y=;\\"z"  ;  ',
        'PlainLoginModule required serviceName="kafka" username = "ada" password = "x y=;\\"z" ;',
    ],
)
def test_the_line_of_a_java_properties_file_is_read(line):
    settings = sasl(sasl_mechanism="PLAIN", sasl_jaas_config=line)
    assert (settings.username, settings.password) == ("ada", 'x y=;"z')


def test_a_scram_line_goes_with_either_scram():
    line = PLAIN_LINE.replace("plain.PlainLoginModule", "scram.ScramLoginModule")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert sasl(sasl_mechanism=mechanism, sasl_jaas_config=line).username == "ada"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "needs a user"),
        ("PlainLoginModule", "semicolon"),
        (PLAIN_LINE.rstrip(";"), "semicolon"),
        (PLAIN_LINE + PLAIN_LINE, "several entries"),
        (PLAIN_LINE.replace("required", ""), "lacks the word required"),
        (PLAIN_LINE.replace('username="ada"', "username"), "must read name"),
        (PLAIN_LINE.replace('\\"z"', "z"), "never closed"),
        (PLAIN_LINE.replace("plain.Plain", "plain.Krb5"), "login module that ottla does not have"),
        (PLAIN_LINE.replace("plain.Plain", "scram.Scram"), "names ScramLoginModule, but sasl.mechanism=PLAIN"),
        ('PlainLoginModule required username="ada";', "needs a user"),
    ],
)
def test_a_line_that_cannot_be_used_is_told_without_quoting_it(line, said):
    with pytest.raises(ConfigError, match=said) as caught:
        sasl(sasl_mechanism="PLAIN", sasl_jaas_config=line)
    assert "x y" not in str(caught.value)


def test_a_delegation_token_is_refused_without_quoting_it():
    line = PLAIN_LINE.replace("plain.Plain", "scram.Scram").removesuffix(";") + ' tokenauth="true";'
    with pytest.raises(ConfigError, match=r"delegation tokens .* are not supported") as caught:
        sasl(sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=line)
    assert "x y" not in str(caught.value)


def test_an_option_may_be_quoted_or_not():
    assert parse_jaas('a.OAuthBearerLoginModule required a="b" c=d;').options == {"a": "b", "c": "d"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"security_protocol": "TLS"}, "allowed are PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security_protocol": "SASL_SSL"}, "needs sasl.mechanism; allowed are PLAIN,"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}, "allowed are PLAIN,"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "ada"}, "needs a user"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, "token.provider"),
        ({"sasl_oauthbearer_token_provider": 7}, "must be a callable"),
        ({"sasl_oauthbearer_token_provider": "abc"}, "as text it must be module:function"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "gssapi"},
            "sasl.mechanism=GSSAPI is Kerberos, which ottla does not have; allowed are",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "AWS_MSK_IAM"},
            "take sasl.mechanism=OAUTHBEARER with .*aws_msk:iam_token",
        ),
        (
            {"sasl_client_callback_handler_class": "IAMClientCallbackHandler"},
            "names a Java class.* for AWS MSK sasl.mechanism=OAUTHBEARER with .*aws_msk:iam_token",
        ),
        ({"sasl_oauthbearer_method": "oidc"}, "where sasl.oauthbearer.token.endpoint.url is given, tokens come from"),
        ({"sasl_oauthbearer_client_id": "x"}, "is called sasl_oauthbearer_client_credentials_client_id here"),
        ({"sasl_oauthbearer_client_secret": "x"}, "is called sasl_oauthbearer_client_credentials_client_secret here"),
        ({"sasl_oauthbearer_jwks_endpoint_url": "x"}, "is for a way of Java's to make or check tokens"),
        ({"sasl_jaas_config": PLAIN_LINE, "sasl_password": "y"}, "say the same"),
        ({"sasl_username": "a\0da", "sasl_password": "y"}, "zero byte"),
        ({"ssl_truststore_type": "JCEKS"}, "allowed are PEM, JKS, PKCS12"),
        (
            {"ssl_truststore_password": "x"},
            r"for the file ssl\.truststore\.location \(JKS or PKCS12\), which is not given",
        ),
        ({"ssl_keystore_password": "x"}, r"for the file ssl\.keystore\.location \(JKS or PKCS12\), which is not given"),
        ({"ssl_truststore_location": "a", "ssl_truststore_certificates": "b"}, "say the same"),
        ({"ssl_keystore_location": "a", "ssl_keystore_key": "b"}, "say the same"),
        ({"ssl_keystore_key": "b"}, "go together"),
        ({"ssl_protocol": "TLSv1.2", "ssl_enabled_protocols": "TLSv1.3"}, "leave no version"),
        ({"ssl_enabled_protocols": "TLSv1.1"}, "allowed are TLSv1.2, TLSv1.3"),
        ({"ssl_endpoint_identification_algorithm": "ldaps"}, "is not known"),
        ({"ssl_provider": "BC"}, "ottla uses OpenSSL"),
        ({"sasl_kerberos_service_name": "kafka"}, "Kerberos"),
        ({"ssl_truststore_locatoin": "x"}, "did you mean ssl.truststore.location"),
    ],
)
def test_what_does_not_go_together_is_one_clear_sentence(given, said):
    base = (
        {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}
        if any("sasl" in name for name in given)
        else {"security_protocol": "SSL"}
    )
    if "security_protocol" in given:
        base = {}
    with pytest.raises(ConfigError, match=said):
        security(**base, **given)


@pytest.mark.parametrize("row", [row for row in SECURITY_SETTINGS if row.secret], ids=lambda row: row.name)
def test_a_secret_of_the_wrong_type_is_not_quoted(row):
    with pytest.raises(ConfigError) as caught:
        security(**{row.name: 987654321})
    assert row.name in str(caught.value)
    assert "987654321" not in str(caught.value)


def test_repr_names_protocol_and_mechanism_alone():
    settings = sasl(sasl_mechanism="PLAIN", sasl_username="ada", sasl_password=SECRET, ssl_key_password=SECRET)
    assert repr(settings) == "<SecuritySettings SASL_SSL PLAIN>"


def test_an_empty_algorithm_leaves_the_host_name_alone():
    assert security(security_protocol="SSL").checks_host_name
    assert not security(security_protocol="SSL", ssl_endpoint_identification_algorithm="").checks_host_name


def test_ssl_protocol_is_the_newest_version_spoken():
    assert security(security_protocol="SSL").tls_versions == ("TLSv1.2", "TLSv1.3")
    assert security(security_protocol="SSL", ssl_protocol="TLSv1.2").tls_versions == ("TLSv1.2",)
    assert security(security_protocol="SSL", ssl_enabled_protocols=["TLSv1.3"]).tls_versions == ("TLSv1.3",)
