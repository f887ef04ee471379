"""A newcomer adds one of each kind: it works, and no more than three files are changed or written by hand.

CONTRIBUTING.md tells how ("Adding one more"). Each addition here is made in a process of its own (`tools.mutation`).
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tools.mutation.control import Control
from tools.mutation.source import ROOT, Edit, changed, insert_after, insert_before, replace

FILES_MOST = 3
KINDS = "producer setting", "codec", "broker API", "fault", "checker", "scenario", "command"

FAULT = '''
from ottla.faults.disk_fault import DiskFault
from ottla.faults.fields import BROKER


class Hiccup(DiskFault):
    """A broker's writes come a millisecond late."""

    kind = "hiccup"
    wanted = (BROKER,)

    def begin(self, site, effect):
        effect.add(site.slow_disk(self.broker_id, 1_000))

    def tell(self):
        return "a hiccup"
'''
MIRROR = "def _polish(data, level):", "    return bytes([level]) + bytes(data)[::-1]"
CHECKER = """
from ottla.audit.findings import EVIDENCE_MAX, NEVER_PLEASED, Findings


def check_never_pleased(case, evidence_max=EVIDENCE_MAX):
    found = Findings(NEVER_PLEASED, evidence_max)
    found.add("it is not good enough")
    return found.finding()
"""
COMMAND = '''
def greet(name: str = "you") -> None:
    """Greet somebody."""
    print(f"Greetings to {name}.")
'''

Addition = tuple[tuple[Edit, ...], Mapping[str, str]]
ADDITIONS: dict[str, Addition] = {
    "setting": (
        (
            insert_after(
                "producer/settings_table.py",
                "    *METRIC_SETTINGS,",
                'Setting("hurry.ms", int, 5, "How soon.", group="Records"),',
            ),
            insert_after("producer/settings.py", "    enable_idempotence: bool", "hurry_ms: int"),
        ),
        {},
    ),
    "codec": (
        (
            replace("records/batch_header.py", '"lz4", "zstd")', '"lz4", "zstd", "mirror")'),
            insert_before("records/compression.py", "_BY_NAME = {", *MIRROR),
            insert_after(
                "records/compression.py",
                "_BY_NAME = {",
                '    "mirror": Codec(_polish, lambda data, _: bytes(data)[:0:-1], Levels(1, 3, default=2)),',
            ),
        ),
        {},
    ),
    "fault": (
        (replace("faults/fault.py", '    "stop",\n', '    "stop",\n    "hiccup",\n'),),
        {"faults/hiccup.py": FAULT},
    ),
    "checker": (
        (
            insert_after("audit/findings.py", 'UNREPEATABLE = "not repeatable"', 'NEVER_PLEASED = "never pleased"'),
            replace(
                "audit/chronicles/judgement.py",
                "    check_repeatability,\n)",
                "    check_repeatability,\n    check_never_pleased,\n)",
            ),
            insert_after(
                "audit/chronicles/judgement.py",
                "from ottla.audit.chronicles.liveness import check_liveness",
                "from ottla.audit.chronicles.never_pleased import check_never_pleased",
            ),
        ),
        {"audit/chronicles/never_pleased.py": CHECKER},
    ),
    "command": ((replace("cli/app.py", '    "docs",\n', '    "docs",\n    "greet",\n'),), {"cli/greet.py": COMMAND}),
}


def use_setting() -> Any:
    from ottla.producer.settings import ProducerSettings

    return ProducerSettings({"bootstrap.servers": "localhost:9092", "hurry.ms": 7}).hurry_ms  # type: ignore[attr-defined]


def use_codec() -> Any:
    from ottla.broker.settings import COMPRESSION_TYPES
    from ottla.producer.settings import ProducerSettings
    from ottla.records.compression import Allowance, compress, decompress

    given = {"bootstrap.servers": "localhost:9092", "compression.type": "mirror", "compression.mirror.level": "3"}
    settings = ProducerSettings(given)
    there = bytes(compress(settings.compression_type, settings.compression_level, b"abc"))
    default = bytes(compress(settings.compression_type, None, b"abc"))
    return there, default[0], bytes(decompress("mirror", there, Allowance())), "mirror" in COMPRESSION_TYPES


def use_fault() -> Any:
    import ottla
    from ottla.faults.fault import make_fault

    with ottla.Cluster(brokers=1) as cluster:
        cluster.create_topic("t", partitions=1)
        with cluster.faults.add(make_fault("hiccup", broker_id=1)) as fault:
            with ottla.Producer(cluster.bootstrap_servers) as producer:
                producer.send("t", b"late").result(30)
            return fault.fired > 0


def use_checker() -> Any:
    from tools.mutation.seeds import kinds_found

    return kinds_found(1)


def use_command() -> Any:
    from ottla.cli import main

    with contextlib.redirect_stdout(io.StringIO()) as told:
        status = main(["greet", "--name", "Ottla"])
    return status, told.getvalue()


USES: dict[str, tuple[Callable[[], Any], Any]] = {
    "setting": (use_setting, 7),
    "codec": (use_codec, (b"\x03cba", 2, b"abc", True)),
    "fault": (use_fault, True),
    "checker": (use_checker, ("never pleased",)),
    "command": (use_command, (0, "Greetings to Ottla.\n")),
}


@pytest.mark.parametrize("kind", ADDITIONS)
def test_one_more_is_added_in_three_files_at_most(kind: str) -> None:
    edits, written = ADDITIONS[kind]
    texts = {**changed(edits), **written}
    assert len(texts) <= FILES_MOST
    use, expected = USES[kind]
    with Control(texts) as added:
        assert added.call(use) == expected


def test_a_broker_api_is_a_file_named_like_its_messages_and_its_versions() -> None:
    from ottla.broker.apis import VERSIONS
    from ottla.protocol.messages import MODULES

    folder = ROOT / "src" / "ottla" / "broker" / "apis"
    beside = {"__init__", "handlers", "port"}
    assert {MODULES[key][0] for key in VERSIONS} == {path.stem for path in folder.glob("*.py")} - beside


def test_a_scenario_is_a_file() -> None:
    from ottla.trial.scenario_file import shipped_names

    folder = ROOT / "src" / "ottla" / "trial" / "scenarios"
    assert sorted(shipped_names()) == sorted(path.stem.partition("-")[2] for path in folder.glob("*.toml"))


def test_contributing_tells_each_in_three_lines() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    recipes = re.search(r"^## Adding one more\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    assert recipes is not None
    items = re.findall(r"^- \*\*(.+?)\*\*((?:.*\n)(?:  .*\n)*)", recipes[1], re.MULTILINE)
    told = {name: 1 + body.rstrip("\n").count("\n") for name, body in items}
    assert set(told) == {
        "A producer setting",
        "A codec",
        "A broker API",
        "A fault",
        "A checker",
        "A scenario",
        "A command",
    }
    assert max(told.values()) <= 3
