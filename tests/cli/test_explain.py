"""`ottla explain` and `ottla trial --from`: captures of real clients through a real proxy, and files that are none."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from tests.explain.made_entries import batch, fetched, produced
from tests.tap.packet_files import BROKER, CLIENT, opening, packets, pcap
from tests.tap.talk import asked, produce
from tests.tap.talk import batch as record_batch

import ottla
from ottla.cli import main
from ottla.simulation.plan import Plan
from ottla.simulation.run import execute
from ottla.tap.capture import CaptureWriter
from ottla.tap.exchange import Batch
from ottla.tap.packets import ACK, RST
from ottla.trial.scenario_file import load_file

CAPTURES = Path(__file__).parents[1] / "tap" / "captures"


def at(name: str, offset: int) -> Batch:
    return batch(name, offset=offset)


class Done(NamedTuple):
    status: int
    out: str
    err: str


def program(*arguments: str | Path) -> Done:
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        status = main([*map(str, arguments)])
    return Done(status, *(stream.buffer.getvalue().decode() for stream in (out, err)))  # type: ignore[attr-defined]


def refused(*arguments: str | Path) -> str:
    done = program(*arguments)
    assert done.status == 2, done
    assert len(done.err.splitlines()) == 1, done.err
    return done.err


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a proxy recorded while one acknowledgement was lost; the producer is another client's."""
    path = tmp_path_factory.mktemp("incident") / "orders.capture"
    with ottla.Cluster(brokers=3) as cluster, ottla.Proxy(cluster.bootstrap_servers, record=path) as proxy:
        cluster.create_topic("orders")
        with proxy.faults.lose_ack(topic="orders", nth=3) as fault:
            settings: dict[str, Any] = {"bootstrap.servers": proxy.bootstrap_servers, "linger.ms": 0}
            producer = confluent_kafka.Producer(settings | {"enable.idempotence": False, "log_level": 0})
            for number in range(6):
                producer.produce("orders", b"order %d" % number)
                producer.flush(30)
        assert fault.fired == 1
    return path


def test_an_incident_becomes_a_story_a_plan_and_json(incident: Path, tmp_path: Path) -> None:
    story, plan, figures = tmp_path / "why.html", tmp_path / "plan.json", tmp_path / "why.json"
    done = program("explain", incident, "--story", story, "--keep", plan, "--json-file", figures)
    assert done.status == 1, done
    assert "duplicated in orders-0: offset 2 holds 1 record whose answer did not come" in done.out
    assert "lose ack of Produce" in done.out
    assert "disks, clocks" in done.out
    assert "in the simulator: the same, with 1 fault" in done.out
    assert "lose ack of Produce" in story.read_text()
    kept = Plan.from_dict(json.loads(plan.read_text()))
    assert [each.kind for each in kept.faults] == ["lose_ack"]
    assert execute(kept).fired == {"lose_ack": 1}
    told = json.loads(figures.read_text())
    assert told["reproduced"]
    assert [each["kind"] for each in told["breaches"]] == ["duplicated"]
    # A machine that is busy makes answers late, too.
    assert "lose_ack" in [each["faults"][0]["kind"] for each in told["suspects"]]


def test_an_incident_becomes_a_trial_that_runs_as_a_regression(incident: Path, tmp_path: Path) -> None:
    kept = tmp_path / "incident.toml"
    done = program("trial", "--from", incident, "--keep", kept, "--json")
    assert done.status == 0, done
    (outcome,) = json.loads(done.out)
    assert outcome["passed"]
    assert outcome["sides"][0]["found"] == {"duplicated": 1}
    assert [each.fault.kind for each in load_file(kept).faults] == ["lose_ack"]
    again = program("trial", kept, "--json")
    assert again.status == 0, again


@pytest.mark.parametrize("name", ["new\nline", "del\x7fete", "emoji 😀", 'quote"\\', os.fsdecode(b"no utf-8 \xff")])
def test_a_capture_with_any_name_becomes_a_trial(incident: Path, tmp_path: Path, name: str) -> None:
    named, kept = tmp_path / f"{name}.capture", tmp_path / "incident.toml"
    named.write_bytes(incident.read_bytes())
    done = program("trial", "--from", named, "--keep", kept, "--json-file", tmp_path / "outcome.json")
    assert done.status == 0, done
    assert load_file(kept).title.endswith(".capture: duplicated")


def test_a_capture_that_breaks_nothing_has_no_story_and_no_plan_and_that_is_no_mistake(tmp_path: Path) -> None:
    story, plan, figures = tmp_path / "why.html", tmp_path / "plan.json", tmp_path / "why.json"
    done = program("explain", CAPTURES / "loopback.pcap", "--story", story, "--keep", plan, "--json-file", figures)
    assert done.status == 0, done
    assert [line.split()[1] for line in done.err.splitlines()] == ["--story", "--keep"]
    assert [each.name for each in tmp_path.iterdir()] == [figures.name]


def test_json_alone_goes_to_stdout(incident: Path) -> None:
    done = program("explain", incident, "--json")
    assert done.status == 1
    assert json.loads(done.out)["broken"]


def test_a_capture_that_is_cut_off_is_explained_up_to_there(incident: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.capture"
    cut.write_bytes(incident.read_bytes()[:-40])
    done = program("explain", cut)
    assert done.status == 1, done
    assert "is cut off" in done.out


def test_a_pcap_of_any_client_is_explained() -> None:
    done = program("explain", CAPTURES / "loopback.pcap")
    assert done.status == 0, done
    assert "broken: nothing that this capture shows" in done.out
    assert "disks, clocks" in done.out


def test_a_pcap_of_one_side_only_breaks_nothing_and_says_so(tmp_path: Path) -> None:
    frames = [asked(produce(record_batch()), 9, number) for number in range(3)]
    path = tmp_path / "one-side.pcap"
    at, pieces = 1000, [opening()[0]]
    for frame in frames:
        pieces.append((CLIENT, BROKER, at, frame, ACK))
        at += len(frame)
    path.write_bytes(pcap(packets(*pieces, (CLIENT, BROKER, at, b"", RST))))
    done = program("explain", path)
    assert done.status == 0, done
    assert "no answer was captured" in done.out
    assert "faults" not in done.out


def test_a_capture_may_come_through_a_pipe(incident: Path) -> None:
    command = [sys.executable, "-m", "ottla", "explain", "-", "--json"]
    done = subprocess.run(command, input=incident.read_bytes(), capture_output=True, timeout=60)
    assert done.returncode == 1, done
    assert json.loads(done.stdout)["breaches"][0]["offsets"] == [2, 3]


def test_faults_of_what_is_broken_are_shown_before_others(tmp_path: Path) -> None:
    path = tmp_path / "long.capture"
    refused = [produced(20 + each, batch(f"r{each}"), error="NOT_ENOUGH_REPLICAS") for each in range(15)]
    lost = [produced(50, batch("b")), produced(60, batch("b"), 2), fetched(70, batch("a"), at("b", 1), at("b", 2))]
    with CaptureWriter(path) as writer:
        for entry in (produced(10, batch("a"), 0), *refused, *lost):
            writer.write(entry)
    shown = program("explain", path, "--shrink-seconds", "1").out.partition("faults that are consistent")[2]
    assert "no answer came" in shown.splitlines()[1]


def test_what_is_no_capture_gets_one_sentence(tmp_path: Path) -> None:
    text, empty, other = tmp_path / "notes.txt", tmp_path / "empty.capture", tmp_path / "other.capture"
    text.write_text("nothing was captured here\n")
    empty.write_bytes(b"")
    other.write_text('{"ottla_capture":1}\n')
    assert "is no recording" in refused("explain", text)
    assert "is empty" in refused("explain", empty)
    assert "no request is in it" in refused("explain", other)
    assert "is a folder" in refused("explain", tmp_path)
    assert "No such file" in refused("explain", tmp_path / "absent.capture")


def test_from_goes_with_no_name_and_keep_with_from(incident: Path, tmp_path: Path) -> None:
    assert "give no name" in refused("trial", "lost-ack", "--from", incident)
    assert "--keep writes the trial that --from makes" in refused("trial", "lost-ack", "--keep", tmp_path / "a.toml")


def test_nothing_broken_makes_no_trial() -> None:
    assert "breaks no promise" in refused("trial", "--from", CAPTURES / "loopback.pcap")
