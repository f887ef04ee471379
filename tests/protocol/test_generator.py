"""The checked-in messages are what the generator writes today, and it can write every API that Kafka has."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
from tools import generate_messages as generator
from tools.kafka_jars import VERSION, JarsUnavailable, fetch
from tools.message_code import condition
from tools.message_schema import DescriptorError, Versions, read_descriptor

from ottla.protocol.primitives import Decoder, Encoder

from ..needs import lacking


@pytest.fixture(scope="module")
def clients_jar() -> Path:
    try:
        return fetch() / f"kafka-clients-{VERSION}.jar"
    except JarsUnavailable as error:
        lacking("kafka", error)


def test_the_checked_in_messages_are_fresh(clients_jar: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = generator.main(["--check"])
    assert (status, capsys.readouterr().err) == (0, "")


def test_a_changed_a_missing_and_a_foreign_module_are_told(tmp_path: Path) -> None:
    (tmp_path / "same.py").write_text("1")
    (tmp_path / "changed.py").write_text("2")
    (tmp_path / "foreign.py").write_text("3")
    sources = {"same.py": "1", "changed.py": "other", "missing.py": "4"}
    assert generator.stale(sources, tmp_path) == ["changed.py", "foreign.py", "missing.py"]


def test_every_api_of_kafka_can_be_added(clients_jar: Path) -> None:
    written = 0
    for api in all_apis(clients_jar):
        if read_descriptor(clients_jar, f"{api}Request")["validVersions"] == "none":
            continue
        messages = generator.read_api(clients_jar, api)
        module: dict[str, Any] = {"__name__": api}
        exec(compile(generator.write_module(api, list(messages)), api, "exec"), module)
        for message in messages:
            assert_defaults_survive(module[message.name])
        written += 1
    assert written > 80


def all_apis(jar: Path) -> list[str]:
    names = [Path(name).name for name in zipfile.ZipFile(jar).namelist()]
    return sorted(name.removesuffix("Request.json") for name in names if name.endswith("Request.json"))


def assert_defaults_survive(found: Any) -> None:
    for version in range(found.MIN_VERSION, found.MAX_VERSION + 1):
        encoder = Encoder()
        found().write(encoder, version)
        decoder = Decoder(b"".join(encoder.chunks()))
        assert found.read(decoder, version) == found()
        decoder.finish()


def test_an_unknown_api_is_named(clients_jar: Path) -> None:
    with pytest.raises(DescriptorError, match=r"holds no descriptor NoSuchThingRequest\.json"):
        generator.read_api(clients_jar, "NoSuchThing")


def test_ranges_of_versions_read_as_in_the_descriptors() -> None:
    assert Versions.parse("3-13") == Versions(3, 13)
    assert Versions.parse("4") == Versions(4, 4)
    assert not Versions.parse("none")
    assert Versions.parse("9+") & Versions(3, 13) == Versions(9, 13)
    assert condition(Versions(9, 13), Versions(3, 13)) == "version >= 9"
    assert condition(Versions(3, 8), Versions(3, 13)) == "version <= 8"
    assert condition(Versions(7, 12), Versions(3, 13)) == "7 <= version <= 12"
    assert condition(Versions(3, 13), Versions(3, 13)) == ""
