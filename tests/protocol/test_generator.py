"""The checked-in messages are what the generator writes today, and it can write every API that Kafka has."""

from __future__ import annotations

import importlib
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.primitives import Decoder, Encoder

from ..needs import lacking

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture(scope="module")
def generator() -> Any:
    sys.path.insert(0, str(TOOLS))
    try:
        return importlib.import_module("generate_messages")
    finally:
        sys.path.remove(str(TOOLS))


@pytest.fixture(scope="module")
def clients_jar(generator: Any) -> Path:
    try:
        return generator.fetch() / f"kafka-clients-{generator.VERSION}.jar"
    except generator.JarsUnavailable as error:
        lacking("kafka", error)


def test_the_checked_in_messages_are_fresh(
    generator: Any, clients_jar: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = generator.main(["--check"])
    assert (status, capsys.readouterr().err) == (0, "")


def test_a_changed_a_missing_and_a_foreign_module_are_told(generator: Any, tmp_path: Path) -> None:
    (tmp_path / "same.py").write_text("1")
    (tmp_path / "changed.py").write_text("2")
    (tmp_path / "foreign.py").write_text("3")
    sources = {"same.py": "1", "changed.py": "other", "missing.py": "4"}
    assert generator.stale(sources, tmp_path) == ["changed.py", "foreign.py", "missing.py"]


def test_every_api_of_kafka_can_be_added(generator: Any, clients_jar: Path) -> None:
    written = 0
    for api in all_apis(clients_jar):
        if generator.read_descriptor(clients_jar, f"{api}Request")["validVersions"] == "none":
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


def test_an_unknown_api_is_named(generator: Any, clients_jar: Path) -> None:
    with pytest.raises(generator.DescriptorError, match=r"holds no descriptor NoSuchThingRequest\.json"):
        generator.read_api(clients_jar, "NoSuchThing")


def test_ranges_of_versions_read_as_in_the_descriptors(generator: Any) -> None:
    versions = importlib.import_module("message_schema").Versions
    condition = importlib.import_module("message_code").condition
    assert versions.parse("3-13") == versions(3, 13)
    assert versions.parse("4") == versions(4, 4)
    assert not versions.parse("none")
    assert versions.parse("9+") & versions(3, 13) == versions(9, 13)
    assert condition(versions(9, 13), versions(3, 13)) == "version >= 9"
    assert condition(versions(3, 8), versions(3, 13)) == "version <= 8"
    assert condition(versions(7, 12), versions(3, 13)) == "7 <= version <= 12"
    assert condition(versions(3, 13), versions(3, 13)) == ""
