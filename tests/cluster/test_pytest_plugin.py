"""The fixtures ottla gives to any project's tests, seen from such a project."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_A_PROJECTS_TESTS = """
import ottla, pytest

seen = []

@pytest.mark.parametrize("number", [1, 2])
def test_each_test_has_an_empty_topic(kafka_cluster, kafka_topic, number):
    with ottla.Admin(kafka_cluster.bootstrap_servers) as admin:
        assert admin.list_topics() == [kafka_topic]
        assert admin.end_offsets(kafka_topic) == {0: 0, 1: 0, 2: 0}
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        producer.send(kafka_topic, b"value").result(30)
    seen.append((kafka_topic, kafka_cluster.pid))

def test_the_cluster_is_shared_and_the_topics_are_not():
    topics, pids = zip(*seen)
    assert len(set(topics)) == 2
    assert len(set(pids)) == 1

def test_names_that_kafka_would_refuse_are_made_fit(kafka_topic, kafka_cluster):
    assert sorted(kafka_cluster.isr(kafka_topic, 2)) == [1, 2, 3]
"""


def test_fixtures_work_in_a_project_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "test_project.py").write_text(_A_PROJECTS_TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


_LEFT_BROKEN = """
import pytest, ottla

LEFT = "kill,power_off,pause,kill all,controller,fault,broker of a fault,topic"

@pytest.mark.parametrize("left", LEFT.split(","))
def test_the_next_one_finds_all_brokers(kafka_cluster, kafka_topic, left):
    assert set(kafka_cluster.brokers().values()) == {"running"}
    assert sorted(kafka_cluster.isr(kafka_topic, 0)) == [1, 2, 3]
    assert kafka_cluster.faults.in_force() == []
    with ottla.Producer(kafka_cluster.bootstrap_servers, acks="all") as producer:
        producer.send(kafka_topic, b"value").result(30)
        if left in ("kill", "power_off", "pause"):
            getattr(kafka_cluster, left)(2)
        elif left == "kill all":
            kafka_cluster.kill()
        elif left == "controller":
            kafka_cluster.faults.stop_controller()
        elif left == "topic":
            kafka_cluster.delete_topic(kafka_topic)
        elif left == "fault":
            kafka_cluster.faults.drop_request(api="Metadata")
            kafka_cluster.faults.lose_ack()
        elif left == "broker of a fault":
            kafka_cluster.faults.kill(topic=kafka_topic, nth=1)
            producer.send(kafka_topic, b"value").result(30)

@pytest.mark.parametrize("time", [1, 2])
def test_a_cluster_that_no_argument_names_is_mended_as_well(request, time):
    kafka_cluster = request.getfixturevalue("kafka_cluster")
    assert set(kafka_cluster.brokers().values()) == {"running"}
    kafka_cluster.kill(time)

def test_a_cluster_of_ones_own_is_another_one(kafka_cluster, own_kafka_cluster):
    own_kafka_cluster.kill()
    assert own_kafka_cluster.pid != kafka_cluster.pid
    assert len(own_kafka_cluster.brokers()) == len(kafka_cluster.brokers())

def test_each_test_has_its_own(own_kafka_cluster):
    assert set(own_kafka_cluster.brokers().values()) == {"running"}
"""


def test_what_a_test_leaves_broken_does_not_reach_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "test_project.py").write_text(_LEFT_BROKEN)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 passed" in done.stdout


_ENDED = """
import os, signal, pytest, ottla

pids = []

@pytest.fixture(scope="session")
def made_once(kafka_cluster):
    kafka_cluster.create_topic("made-once")
    return kafka_cluster.pid

@pytest.mark.parametrize("left", ["close", "kill", "nothing"])
def test_the_next_one_has_a_cluster(kafka_cluster, kafka_topic, made_once, left):
    assert made_once == kafka_cluster.pid
    assert kafka_cluster.pid not in pids
    pids.append(kafka_cluster.pid)
    assert len(kafka_cluster.brokers()) == 2
    assert sorted(kafka_cluster.topics()) == sorted([kafka_topic, "made-once"])
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        producer.send(kafka_topic, b"value").result(30)
    if left == "kill":
        os.kill(kafka_cluster.pid, signal.SIGKILL)
    elif left == "close":
        kafka_cluster.close()

@pytest.mark.parametrize("left", ["close", "nothing"])
def test_that_names_no_fixture(request, left):
    kafka_cluster = request.getfixturevalue("kafka_cluster")
    assert set(kafka_cluster.brokers().values()) == {"running"}
    if left == "close":
        kafka_cluster.close()

def test_without_a_cluster():
    pass

def test_that_closes_its_own(own_kafka_cluster):
    own_kafka_cluster.close()

def test_the_last_one(kafka_cluster):
    kafka_cluster.close()
"""

_A_CLUSTER_OF_THE_PROJECT = """
import ottla, pytest

@pytest.fixture(scope="module")
def kafka_cluster():
    with ottla.Cluster(brokers=1) as cluster:
        yield cluster

@pytest.mark.parametrize("time", [1, 2])
def test_it_is_made_again(kafka_cluster, time):
    kafka_cluster.create_topic("new")
    kafka_cluster.close()
"""


def test_a_test_that_ends_the_cluster_is_named_and_the_next_one_gets_another(tmp_path: Path) -> None:
    done = _run_project(tmp_path, _ENDED, "--kafka-brokers", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 passed, 3 warnings" in done.stdout
    for name, what in (
        ("the_next_one_has_a_cluster[close]", "it was closed"),
        ("the_next_one_has_a_cluster[kill]", "the brokers' process ended by itself (killed by signal 9)"),
        ("that_names_no_fixture[close]", "it was closed"),
    ):
        assert f"kafka_cluster did not outlive test_project.py::test_{name}: {what}" in done.stdout


def test_a_cluster_of_the_projects_own_fixture_is_made_again(tmp_path: Path) -> None:
    done = _run_project(tmp_path, _A_CLUSTER_OF_THE_PROJECT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "did not outlive test_project.py::test_it_is_made_again[1]" in done.stdout


def test_a_registry_is_made_again_with_its_cluster(tmp_path: Path) -> None:
    done = _run_project(tmp_path, _A_REGISTRY_OF_AN_ENDED_CLUSTER, "--kafka-brokers", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed, 1 warning" in done.stdout


_A_REGISTRY_OF_AN_ENDED_CLUSTER = """
import os, signal, urllib.request, pytest

@pytest.mark.parametrize("time", [1, 2])
def test_it_answers(schema_registry, kafka_cluster, time):
    with urllib.request.urlopen(f"{schema_registry.url}/subjects", timeout=30) as answer:
        assert answer.read() == b"[]"
    if time == 1:
        os.kill(kafka_cluster.pid, signal.SIGKILL)
"""


_A_CLUSTER_AS_TOLD = """
import glob, os, ottla

def test_the_cluster_is_as_told(kafka_cluster, kafka_topic):
    brokers, segments = os.environ["EXPECTED"].split()
    assert len(kafka_cluster.bootstrap_servers.split(",")) == int(brokers)
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        for number in range(3):
            producer.send(kafka_topic, bytes(60_000), partition=0).result(30)
    kept = glob.glob(f"{kafka_cluster._data_dir}/broker-1/{kafka_topic}-0/*.log")
    assert len(kept) == int(segments)
"""

_RECORDS_OF_LONG_AGO = """
import os, time, ottla

def test_retention(kafka_cluster, kafka_topic):
    kafka_cluster.create_topic("short", configs={"retention.ms": "1"})
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        for topic in (kafka_topic, "short"):
            producer.send(topic, b"value", partition=0, timestamp_ms=1).result(30)
    def begins(topic):
        [leader] = kafka_cluster.replicas(topic)[0]["replicas"]
        return leader["log_start_offset"]

    give_up_s = time.monotonic() + 60
    while begins("short") == 0 and time.monotonic() < give_up_s:
        pass
    assert begins("short") == 1
    assert begins(kafka_topic) == int(os.environ["EXPECTED"])
"""

_A_PROJECT_WITH_TWO_WORKERS = """
import ottla, pathlib

def test_a_worker_has_a_cluster_of_its_own(kafka_cluster, kafka_topic, worker_id):
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        assert producer.send(kafka_topic, worker_id.encode(), partition=0).result(30).offset == 0
    pathlib.Path(f"cluster-of-{worker_id}").write_text(str(kafka_cluster.pid))

def test_its_topics_are_nobody_elses(kafka_cluster, kafka_topic):
    with ottla.Admin(kafka_cluster.bootstrap_servers) as admin:
        assert admin.list_topics() == [kafka_topic]
"""


def _run_project(
    folder: Path, content: str, *arguments: str, ini: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    (folder / "test_project.py").write_text(content)
    (folder / "pytest.ini").write_text(f"[pytest]\n{ini}")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, str(folder)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, cwd=folder, check=False, env={**os.environ, **environment}
    )


@pytest.mark.parametrize(
    ("ini", "arguments", "expected"),
    [
        ("kafka_brokers = 1\nkafka_settings =\n    log.segment.bytes = 100000\n    num.partitions=2\n", (), "1 3"),
        ("", ("--kafka-brokers", "2", "--kafka-setting", "log.segment.bytes=100000"), "2 3"),
        ("kafka_brokers = 1\nkafka_settings = log.segment.bytes=100000", ("--kafka-brokers=2",), "2 3"),
        (
            "kafka_settings = log.segment.bytes=9",
            ("--kafka-brokers=1", "--kafka-setting=log.segment.bytes=99999999"),
            "1 1",
        ),
    ],
)
def test_brokers_and_settings_are_as_told(tmp_path: Path, ini: str, arguments: tuple[str, ...], expected: str) -> None:
    done = _run_project(tmp_path, _A_CLUSTER_AS_TOLD, *arguments, ini=ini, EXPECTED=expected)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("arguments", "begins"), [((), 0), (("--kafka-setting", "log.retention.ms=604800000"), 1)])
def test_records_of_long_ago_stay_unless_told(tmp_path: Path, arguments: tuple[str, ...], begins: int) -> None:
    """Fixed timestamps are common in tests, and retention runs once in five minutes."""
    ini = "kafka_brokers = 1\nkafka_settings = log.retention.check.interval.ms=10\n"
    done = _run_project(tmp_path, _RECORDS_OF_LONG_AGO, *arguments, ini=ini, EXPECTED=str(begins))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--kafka-brokers", "0"), "--kafka-brokers is '0' and must be a number from 1 to 100"),
        (("-o", "kafka_brokers=-1"), "kafka_brokers in pytest's configuration is '-1' and must be a number from 1 to"),
        (("--kafka-setting", "log.segment.bytes"), "is not NAME=VALUE"),
        (("--kafka-setting", "log.segment.butes=1"), "'log.segment.butes' is unknown; did you mean log.segment.bytes?"),
        (("-o", "kafka_settings=log.segment.bytes=x"), "log.segment.bytes='x'"),
        (
            ("--kafka-setting", "log_segment_bytes=1048576", "--kafka-setting", "log.segment.bytes=2097152"),
            "log.segment.bytes is given twice ('log_segment_bytes=1048576' and 'log.segment.bytes=2097152'): keep one",
        ),
    ],
)
def test_what_cannot_be_is_said(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    done = _run_project(tmp_path, _A_CLUSTER_AS_TOLD, *arguments, EXPECTED="1 1")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert (done.stdout + done.stderr).count(words) == 1, done.stdout + done.stderr
    assert "pytest_plugin.py" not in done.stdout + done.stderr  # one sentence, and nothing of this plugin's inside


def test_what_only_the_cluster_knows_is_wrong_is_said_once_for_each_test(tmp_path: Path) -> None:
    content = "def test_one(own_kafka_cluster):\n    pass\n"
    wrong = "import ottla.cluster.cluster as c\nfrom ottla.errors import ConfigError\n"
    wrong += "def refuse(*_, **__):\n    raise ConfigError('this cluster cannot be')\nc.Cluster = refuse\n"
    done = _run_project(tmp_path, wrong + content, "-rN")
    assert done.stdout.count("own_kafka_cluster: this cluster cannot be") == 1
    assert "During handling" not in done.stdout


def test_each_worker_of_xdist_has_a_cluster_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    arguments = ("-n", "2", "--dist", "each", "--kafka-brokers", "1")
    done = _run_project(tmp_path, _A_PROJECT_WITH_TWO_WORKERS, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
    pids = {path.read_text() for path in tmp_path.glob("cluster-of-*")}
    assert len(pids) == 2


def test_the_worked_example_holds() -> None:
    """Users read it to learn how an application is tested under a lost acknowledgement."""
    example = Path(__file__).parents[2] / "examples" / "lost_ack"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(example), str(example)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=example, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_the_plugin_costs_nothing_where_it_is_not_used() -> None:
    """Every pytest run of every project that has ottla installed loads it."""
    script = (
        "import sys, ottla.cluster.pytest_plugin; "
        "print([name for name in sys.modules if name.startswith('ottla.') and 'cluster.pytest_plugin' not in name])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "['ottla.cluster']"


_FAILING_TESTS = """
import ottla, pytest
from concurrent.futures import Future

def fails_for_another_reason(error):
    raise LookupError("what the user made of it") from error

def test_a_record_is_refused():
    with ottla.Producer("127.0.0.1:1", max_block_ms=1) as producer:
        producer.send("orders", b"value")  # this line of the user

def test_an_error_in_turn():
    producer = ottla.Producer("127.0.0.1:1", max_block_ms=1)
    try:
        producer.send("orders", b"value")  # where it began
    except ottla.OttlaError as error:
        fails_for_another_reason(error)  # and where it went

def test_a_setting_is_refused():
    ottla.Producer("127.0.0.1:1", linger_ms=-1)  # the setting of the user

def test_a_group():
    raise ExceptionGroup("several", [as_raised()])

def as_raised():
    try:
        ottla.Producer("127.0.0.1:1", max_block_ms=1).send("orders", b"value")  # in a group
    except ottla.OttlaError as error:
        return error

def test_a_request_does_not_come(own_kafka_cluster):
    with own_kafka_cluster.faults.hold(topic="orders") as hold:
        hold.await_reached(timeout=0)  # nobody has come

@pytest.fixture
def broken():
    ottla.Producer("127.0.0.1:1", max_block_ms=1).send("orders", b"value")  # in a fixture

def test_with_a_broken_fixture(broken):
    pass
"""


@pytest.mark.parametrize("style", ["auto", "long", "short"])
def test_a_failing_test_shows_the_users_lines_and_no_frame_without_source(tmp_path: Path, style: str) -> None:
    done = _run_project(tmp_path, _FAILING_TESTS, f"--tb={style}")
    assert "5 failed, 1 error" in done.stdout
    assert "???" not in done.stdout
    for line in (
        "# this line of the user",
        "# where it began",
        "# and where it went",
        "# the setting of the user",
        "# in a group",
        "# nobody has come",
        "# in a fixture",
    ):
        assert line in done.stdout
    # Our own lines say nothing about it.
    assert "raise error_from" not in done.stdout
    assert "self._ask" not in done.stdout
