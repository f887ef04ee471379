"""`help()` of what takes settings: each by its keyword, with its default."""

from __future__ import annotations

import inspect
import pydoc
from collections.abc import Callable
from typing import Any
from unittest.mock import create_autospec

import pytest

import ottla
from ottla.client.producer_settings_keywords import ProducerSettingsKeywords
from ottla.client.reader_settings_keywords import ReaderSettingsKeywords
from ottla.producer.settings import ProducerSettings

PRODUCING = (ottla.Producer, ottla.AsyncProducer, ottla.write_table)
READING = (ottla.Reader, ottla.Admin, ottla.read_table)
SERVERS = {"bootstrap_servers": "localhost:1"}


def settings_in(taker: Callable[..., Any], table: type) -> dict[str, Any]:
    """The defaults of the settings in its signature."""
    parameters = inspect.signature(taker).parameters
    return {name: parameters[name].default for name in parameters if name in table.__annotations__}


@pytest.mark.parametrize("taker", [*PRODUCING, *READING])
def test_help_names_every_setting_with_its_default(taker: Callable[..., Any]) -> None:
    told = pydoc.plain(pydoc.render_doc(taker))
    table = ProducerSettingsKeywords if taker in PRODUCING else ReaderSettingsKeywords
    assert "Unpack" not in told
    assert "**settings" not in told
    assert all(f"{name}=" in told for name in ("request_timeout_ms", "client_id", "sasl_password"))
    assert settings_in(taker, table).keys() == table.__annotations__.keys()
    assert ("linger_ms=5," in told) == (taker in PRODUCING)
    assert ("isolation_level='read_uncommitted'," in told) == (taker in READING)


def in_force(settings: ProducerSettings) -> dict[str, Any]:
    """What has a plain value: all but functions, clocks and the like."""
    every = {**vars(settings), **vars(settings.connection)}
    return {name: value for name, value in every.items() if isinstance(value, str | int | float | tuple)}


def test_defaults_in_the_help_are_those_that_count() -> None:
    written = ProducerSettings({**SERVERS, **settings_in(ottla.Producer, ProducerSettingsKeywords)})
    assert in_force(written) == in_force(ProducerSettings(SERVERS))
    assert {"client_id", "compression_type"} <= in_force(written).keys()


def test_a_mock_with_the_same_signature_takes_names_with_dots() -> None:
    mock = create_autospec(ottla.Producer)
    mock("localhost:1", **{"linger.ms": 5})
    mock.assert_called_once_with("localhost:1", **{"linger.ms": 5})


def test_what_is_no_setting_is_still_told_with_the_nearest() -> None:
    taker: Any = ottla.Producer
    with pytest.raises(ottla.ConfigError, match="did you mean linger_ms"):
        taker("localhost:1", linger_mss=5)
