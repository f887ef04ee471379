"""Weaknesses are for the simulator alone: every name is planted and told of, and no door of the product leads there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.testing import CliRunner

import ottla
from ottla.broker.settings import BrokerSettings
from ottla.broker.topic_settings import TOPIC_SETTINGS
from ottla.cli.app import app
from ottla.connection.setting import Setting
from ottla.errors import ConfigError
from ottla.producer.settings import ProducerSettings
from ottla.producer.settings_table import PRODUCER_SETTINGS
from ottla.reader.settings import READER_SETTINGS, ReaderSettings
from ottla.simulation.weaknesses import WEAKNESSES
from ottla.simulation.world import World
from ottla.weaknesses import Weakness

SOURCE = Path(__file__).parents[2] / "src" / "ottla"
NAMES: tuple[Weakness, ...] = get_args(Weakness)
ROOMS = ("broker", "producer", "reader")
GIVEN = {"weaknesses": ("no_sequence_check",)}
NOWHERE = "localhost:1"


def planted() -> dict[str, int]:
    """How often each name is asked for in the cores."""
    text = "".join(path.read_text() for room in ROOMS for path in sorted((SOURCE / room).rglob("*.py")))
    found: dict[str, int] = {}
    for name in re.findall(r'"(\w+)" (?:not )?in [\w.]*weaknesses', text):
        found[name] = found.get(name, 0) + 1
    return found


def test_every_name_is_planted_and_told_of() -> None:
    assert sorted(WEAKNESSES) == sorted(NAMES)
    assert sorted(planted()) == sorted(NAMES)
    assert len(NAMES) >= 15


def test_no_settings_read_one() -> None:
    with pytest.raises(ConfigError, match="weaknesses"):
        BrokerSettings(**GIVEN)
    with pytest.raises(ConfigError, match="weaknesses"):
        ProducerSettings({"bootstrap_servers": NOWHERE, **GIVEN})
    with pytest.raises(ConfigError, match="weaknesses"):
        ReaderSettings({"bootstrap_servers": NOWHERE, **GIVEN})
    rows: list[Setting | Any] = [*PRODUCER_SETTINGS, *READER_SETTINGS, *TOPIC_SETTINGS]
    assert not [row.name for row in rows if "weak" in row.name]


def test_no_public_door_leads_to_one() -> None:
    with pytest.raises(ConfigError, match="weaknesses"):
        ottla.Cluster(brokers=1, in_process=True, settings=GIVEN)
    producer: Any = ottla.Producer
    with pytest.raises(ConfigError, match="weaknesses"):
        producer(NOWHERE, **GIVEN)
    with pytest.raises(ConfigError, match="weaknesses"):
        producer.from_config({"bootstrap.servers": NOWHERE, **GIVEN})
    told = CliRunner().invoke(app, ["serve", "--brokers", "1", "--set", "weaknesses=no_sequence_check"])
    assert isinstance(told.exception, ConfigError)
    assert "weaknesses" in str(told.exception)


def test_settings_have_none_unless_the_world_gives_them() -> None:
    assert BrokerSettings().weaknesses == ()
    assert ProducerSettings({"bootstrap_servers": NOWHERE}).weaknesses == ()
    assert ReaderSettings({"bootstrap_servers": NOWHERE}).weaknesses == ()
    whole, weak = World(1), World(1, weaknesses=("no_sequence_check",))
    core: Any = weak.brokers[0].core
    assert core.settings.weaknesses == ("no_sequence_check",)
    core = whole.brokers[0].core
    assert core.settings.weaknesses == ()


def test_who_uses_the_product_never_loads_the_names() -> None:
    code = """
import sys
import ottla
with ottla.Cluster(brokers=1, in_process=True) as cluster:
    cluster.create_topic("flights")
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        producer.send("flights", b"value").result(10)
sys.exit("ottla.weaknesses" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
