"""A newcomer adds one of each kind: it works, and no more than three files are changed or written by hand.

CONTRIBUTING.md tells how ("Adding one more"). Each addition here is made in a process of its own: most by
`tools.mutation`, a scenario in a copy of the package, as it is a file that no module has. Tests come on top of the
files that are counted, and what a generator writes is not written by hand.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tools import generate_messages as generator
from tools.kafka_jars import VERSION, JarsUnavailable, fetch
from tools.message_schema import snake_case
from tools.mutation.control import Control
from tools.mutation.source import PACKAGE, ROOT, Edit, changed, insert_after, insert_before, replace

from ottla.audit.findings import PROPERTIES

from ..needs import lacking

FILES_MOST = 3

API, API_KEY, API_MODULE = "DescribeUserScramCredentials", 50, "describe_user_scram_credentials"
HANDLER = '''
"""DescribeUserScramCredentials, version 0 (KIP-554): whoever is asked about has no credentials here."""

from ottla.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(broker, request, now_us):
    asked = request.message.users or []
    results = [DescribeUserScramCredentialsResult(user=each.name) for each in asked]
    broker.answer(request, DescribeUserScramCredentialsResponse(results=results), now_us)
'''
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
VERB = '''
def hiccup(self, broker_id: int) -> Fault:
    """Delay this broker's writes by a millisecond."""
    return self._impose("hiccup", broker_id=broker_id)
'''
REQUEST_FAULT = '''
from ottla.faults.request_fault import Does, RequestFault


class Snub(RequestFault):
    """Requests for metadata get no answer, and the connection stays open."""

    kind = "snub"
    does = Does.SILENCE
    defaults = {"api": "Metadata"}
'''
REQUEST_VERB = '''
@of_requests
def snub(self, **which: Unpack[Which]) -> FaultInForce:
    """Answer requests for metadata with nothing."""
    return self._at_requests("snub", which)
'''
MIRROR = "def _polish(data, level):", "    return bytes([level]) + bytes(data)[::-1]"
CHECKER = """
from ottla.audit.chronicles.case import UNCOMMITTED
from ottla.audit.findings import BEYOND, EVIDENCE_MAX, Findings


def check_beyond(case, evidence_max=EVIDENCE_MAX):
    found = Findings(BEYOND, evidence_max)
    for place, records in case.sent_to.items():
        read = case.final.get((UNCOMMITTED, place))
        for record in records if read is not None else ():
            if record.offset >= read.end:
                found.add("told an offset behind the log's end", place=place, number=record.number)
    return found.finding()
"""
# The control: a broker that tells offsets a thousand too high.
CONTROL = replace(
    "broker/apis/produce.py", "answer.base_offset = base_offset", "answer.base_offset = base_offset + 1000"
)
COMMAND = '''
def greet(name: str = "you") -> None:
    """Greet somebody."""
    print(f"Greetings to {name}.")
'''
SCENARIO = """
title = "One acknowledgement is lost"
teaches = "An idempotent producer sends again, and nothing is stored twice."
records = 30

[[fault]]
kind = "lose_ack"
nth = 1

[[side]]
name = "without idempotence"
claims = "at-least-once"
producer = { acks = "all", "enable.idempotence" = false }
shows = ["duplicated"]

[[side]]
name = "with idempotence"
claims = "exactly-once"
"""


class Addition(NamedTuple):
    """What is changed and written below src/ottla, and which other files are changed: tools and pages."""

    edits: tuple[Edit, ...] = ()
    written: Mapping[str, str] = {}
    elsewhere: tuple[str, ...] = ()

    def texts(self) -> dict[str, str]:
        """The files below src/ottla."""
        return {**changed(self.edits), **self.written}

    def files(self) -> list[str]:
        """All files that are changed or written by hand."""
        return [*self.texts(), *self.elsewhere]


ADDITIONS = {
    "A producer setting": Addition(
        (
            insert_after(
                "producer/settings_table.py",
                "    *METRIC_SETTINGS,",
                'Setting("hurry.ms", int, 60_000, "The longest linger.ms there is.", group="Batches and memory"),',
            ),
            insert_after("producer/settings.py", "    enable_idempotence: bool", "hurry_ms: int"),
            insert_after(
                "producer/settings.py",
                "self.linger_ms = min(self.linger_ms, INT32_MAX)",
                "self.linger_ms = min(self.linger_ms, self.hurry_ms)",
            ),
        ),
    ),
    "A codec": Addition(
        (
            replace("records/batch_header.py", '"lz4", "zstd"', '"lz4", "zstd", "mirror"'),
            insert_before("records/compression.py", "_BY_NAME = {", *MIRROR),
            insert_after(
                "records/compression.py",
                "_BY_NAME = {",
                '    "mirror": Codec(_polish, lambda data, _: bytes(data)[:0:-1], Levels(1, 3, default=2)),',
            ),
        ),
    ),
    "A broker API": Addition((), {f"broker/apis/{API_MODULE}.py": HANDLER}, ("tools/generate_messages.py",)),
    "A fault": Addition(
        (
            replace("faults/fault.py", '    "stop",\n', '    "stop",\n    "hiccup",\n'),
            insert_before("cluster/faults.py", "    def stop(self, broker_id: int)", *VERB.splitlines(), ""),
        ),
        {"faults/hiccup.py": FAULT},
    ),
    "A fault of requests": Addition(
        (
            replace("faults/fault.py", '"lose_request", "drop_request"', '"lose_request", "drop_request", "snub"'),
            insert_before("faults/verbs.py", "    # Requests, after the append.", *REQUEST_VERB.splitlines(), ""),
        ),
        {"faults/snub.py": REQUEST_FAULT},
    ),
    "A checker": Addition(
        (
            insert_after("audit/findings.py", 'UNREPEATABLE = "not repeatable"', 'BEYOND = "told beyond the end"'),
            insert_after(
                "audit/findings.py",
                "(UNREPEATABLE,)),",
                f'Property({len(PROPERTIES) + 1}, "offsets told are in the log", (BEYOND,)),',
            ),
            insert_after("audit/chronicles/judgement.py", "    check_repeatability,", "check_beyond,"),
            insert_before(
                "audit/chronicles/judgement.py",
                "from ottla.audit.chronicles.case import",
                "from ottla.audit.chronicles.beyond import check_beyond",
            ),
        ),
        {"audit/chronicles/beyond.py": CHECKER},
    ),
    "A scenario": Addition((), {"trial/scenarios/99-newcomer.toml": SCENARIO}, ("docs/trials.md",)),
    "A command": Addition(
        (replace("cli/app.py", '    "docs",\n', '    "docs",\n    "greet",\n'),),
        {"cli/greet.py": COMMAND},
        ("docs/command-line.md",),
    ),
}


@pytest.mark.parametrize("kind", ADDITIONS)
def test_one_more_takes_three_files_at_most(kind: str) -> None:
    files = ADDITIONS[kind].files()
    assert len(files) == len({*files}) <= FILES_MOST


@pytest.mark.parametrize("kind", [kind for kind in ADDITIONS if ADDITIONS[kind].edits])
def test_whoever_adds_another_of_a_kind_need_not_change_this_file(kind: str) -> None:
    """What stands in the source is looked for in a way that an addition leaves alone."""
    texts = changed(ADDITIONS[kind].edits)
    for edit in ADDITIONS[kind].edits:
        texts[edit.file] = edit.apply(texts[edit.file])


def use_setting() -> bool:
    import ottla

    told = threading.Event()
    with ottla.Cluster(brokers=1) as cluster:
        cluster.create_topic("t", partitions=1)
        # Only hurry.ms sends the record: nobody waits for it, and linger.ms is an hour.
        given = {"linger.ms": 3_600_000, "hurry.ms": 5, "bootstrap.servers": cluster.bootstrap_servers}
        with ottla.Producer.from_config(given) as producer:
            producer.send("t", b"soon", on_delivery=lambda delivery: told.set())
            return told.wait(60)


def test_a_setting_that_was_added_changes_what_a_producer_does() -> None:
    with Control(ADDITIONS["A producer setting"].texts()) as added:
        assert added.call(use_setting)


def where_a_setting_shows() -> dict[str, bool]:
    import inspect

    from tools.generate_settings import write_page

    import ottla
    from ottla.spark.option_names import SETTINGS

    clients = {
        each.__name__: "hurry_ms" in inspect.signature(each).parameters
        for each in (ottla.Producer, ottla.AsyncProducer)
    }
    return {**clients, "page": "| `hurry.ms` |" in write_page(), "Spark": "hurry_ms" in SETTINGS}


def test_a_setting_that_was_added_is_known_wherever_settings_are_given() -> None:
    with Control(ADDITIONS["A producer setting"].texts()) as added:
        shown = added.call(where_a_setting_shows)
    assert shown == dict.fromkeys(("Producer", "AsyncProducer", "page", "Spark"), True)


def use_codec() -> Any:
    import ottla
    from ottla.broker.settings import COMPRESSION_TYPES
    from ottla.records.compression import compress

    with ottla.Cluster(brokers=1) as cluster:
        cluster.create_topic("t", partitions=1)
        given = {"compression.type": "mirror", "compression.mirror.level": "3"}
        with ottla.Producer.from_config({"bootstrap.servers": cluster.bootstrap_servers, **given}) as producer:
            producer.send("t", b"abc").result(30)
        values = ottla.read_table(cluster.bootstrap_servers, "t").column("value").to_pylist()
    there, default = (bytes(compress("mirror", level, b"abc")) for level in (3, None))
    return there, default, values, "mirror" in COMPRESSION_TYPES


def test_records_are_sent_and_read_with_a_codec_that_was_added() -> None:
    with Control(ADDITIONS["A codec"].texts()) as added:
        assert added.call(use_codec) == (b"\x03cba", b"\x02cba", [b"abc"], True)


def generated(api: str) -> dict[str, str]:
    """What tools/generate_messages.py writes with one more API."""
    try:
        jar = fetch() / f"kafka-clients-{VERSION}.jar"
    except JarsUnavailable as error:
        lacking("kafka", error)
    requests = {each: generator.read_api(jar, each)[0] for each in (*generator.APIS, api)}
    module = generator.write_module(api, list(generator.read_api(jar, api)))
    return {
        "protocol/messages/__init__.py": generator.write_table(requests),
        f"protocol/messages/{snake_case(api)}.py": module,
    }


def use_api() -> Any:
    from tests.cluster.kio_wire import KioWire, error_codes

    import ottla

    with ottla.Cluster(brokers=1) as cluster, contextlib.closing(KioWire(cluster.bootstrap_servers)) as wire:
        told = wire.ask(18, 3, client_software_name="kio", client_software_version="1")
        advertised = [(each.min_version, each.max_version) for each in told.api_keys if each.api_key == API_KEY]
        # As `test_every_version` asks an API that has no case, and about somebody.
        answers = [wire.ask(API_KEY, 0), wire.ask(API_KEY, 0, users=[{"name": "kim"}])]
    codes = {code for answer in answers for code in error_codes(answer)}
    return advertised, codes, [[each.user for each in answer.results] for answer in answers]


def test_a_broker_answers_an_api_that_was_added() -> None:
    texts = generated(API) | ADDITIONS["A broker API"].texts()
    with Control(texts) as added:
        assert added.call(use_api) == ([(0, 0)], {0}, [[], ["kim"]])


def use_fault() -> Any:
    import ottla
    from ottla.simulation.drawing import DRAWN_KINDS

    with ottla.Cluster(brokers=1) as cluster:
        cluster.create_topic("t", partitions=1)
        with cluster.faults.hiccup(1) as fault:  # type: ignore[attr-defined]
            with ottla.Producer(cluster.bootstrap_servers) as producer:
                producer.send("t", b"late").result(30)
            return fault.fired > 0, "hiccup" in DRAWN_KINDS


def test_a_fault_that_was_added_has_a_verb_and_fires() -> None:
    with Control(ADDITIONS["A fault"].texts()) as added:
        assert added.call(use_fault) == (True, True)


def use_request_fault() -> Any:
    import ottla
    from ottla.simulation.drawing import _AT_REQUESTS

    with ottla.Cluster(brokers=1) as cluster, ottla.Proxy(cluster.bootstrap_servers) as proxy:
        fired = []
        for faults, servers in ((cluster.faults, cluster.bootstrap_servers), (proxy.faults, proxy.bootstrap_servers)):
            with faults.snub(nth=1) as fault, ottla.Admin(servers, request_timeout_ms=500) as admin:  # type: ignore[union-attr]
                admin.cluster()
                fired.append(fault.fired)
        return fired, "snub" in _AT_REQUESTS


def test_a_fault_of_requests_that_was_added_fires_at_brokers_and_proxies() -> None:
    with Control(ADDITIONS["A fault of requests"].texts()) as added:
        assert added.call(use_request_fault) == ([1, 1], True)


def where_a_fault_shows() -> dict[str, bool]:
    from tools.generate_faults import page

    from ottla.faults.fault import Fault, fault_class
    from ottla.remote.faults import described_kinds

    draws = fault_class("hiccup").draw.__func__ is not Fault.draw.__func__  # type: ignore[attr-defined]
    remote = any(each["kind"] == "hiccup" for each in described_kinds())
    return {"page": "| `hiccup` |" in page(), "remote": remote, "draws": draws}


def test_a_fault_that_was_added_is_known_wherever_faults_are_told() -> None:
    with Control(ADDITIONS["A fault"].texts()) as added:
        assert added.call(where_a_fault_shows) == dict.fromkeys(("page", "remote", "draws"), True)


def use_checker() -> Any:
    """The properties that are violated in a run, and all there are."""
    from ottla.audit.properties import VIOLATED, judge_properties
    from ottla.simulation.draw import draw
    from ottla.simulation.run import execute

    verdicts = judge_properties(execute(draw(1)).findings, {})
    return [verdict.what.name for verdict in verdicts if verdict.word == VIOLATED], len(verdicts)


def test_a_checker_that_was_added_is_a_property_and_convicts_its_control() -> None:
    texts = ADDITIONS["A checker"].texts()
    count = len(PROPERTIES) + 1
    with Control(texts) as added:
        assert added.call(use_checker) == ([], count)
    with Control(texts | changed([CONTROL])) as weakened:
        violated, judged = weakened.call(use_checker)
    assert ("offsets told are in the log" in violated, judged) == (True, count)


def test_a_scenario_that_was_added_runs_by_its_name(tmp_path: Path) -> None:
    copy = tmp_path / "ottla"
    without_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, copy, copy_function=os.symlink, ignore=without_caches)
    for file, text in ADDITIONS["A scenario"].written.items():
        (copy / file).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "trial", "newcomer"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "One acknowledgement is lost" in done.stdout


def use_command() -> Any:
    from ottla.cli import main

    with contextlib.redirect_stdout(io.StringIO()) as told:
        status = main(["greet", "--name", "Ottla"])
    return status, told.getvalue()


def test_a_command_that_was_added_is_there() -> None:
    with Control(ADDITIONS["A command"].texts()) as added:
        assert added.call(use_command) == (0, "Greetings to Ottla.\n")


def test_a_broker_api_is_a_file_named_like_its_messages_which_says_its_versions() -> None:
    from ottla.broker.apis import VERSIONS
    from ottla.protocol.messages import MODULES

    folder = ROOT / "src" / "ottla" / "broker" / "apis"
    beside = {"__init__", "handlers", "port"}
    assert {MODULES[key][0] for key in VERSIONS} == {path.stem for path in folder.glob("*.py")} - beside
    for key, (lowest, highest) in VERSIONS.items():
        module, name = MODULES[key]
        to = "and" if highest == lowest + 1 else "to"
        said = f"version {lowest}" if lowest == highest else f"versions {lowest} {to} {highest}"
        opening = ast.get_docstring(ast.parse((folder / f"{module}.py").read_text())) or ""
        assert re.match(rf"{name}, {said}(:| \()", opening), f"{module}.py answers {said}"


def test_contributing_tells_each_in_three_lines() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    recipes = re.search(r"^## Adding one more\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    assert recipes is not None
    items = re.findall(r"^- \*\*(.+?)\*\*((?:.*\n)(?:  .*\n)*)", recipes[1], re.MULTILINE)
    told = {name: 1 + body.rstrip("\n").count("\n") for name, body in items}
    assert set(told) == set(ADDITIONS)
    assert max(told.values()) <= 3
