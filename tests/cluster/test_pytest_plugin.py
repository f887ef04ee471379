"""The fixtures ottla gives to any project's tests, seen from such a project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
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
