"""The way of one record, on a real cluster: what is told is what the log holds."""

from __future__ import annotations

import io
import subprocess
import sys

from rich.console import Console

from ottla.client.admin import Admin
from ottla.cluster.cluster import Cluster
from ottla.showcase.kafka import EmbeddedKafka
from ottla.showcase.lanes import show_lanes
from ottla.showcase.one_record import follow_record

AHEAD = [(b"k1", b"first"), (None, b"second")]
RECORD = (b"k3", b"third")


def test_lost_answer_stores_one_record_not_at_all_twice_and_once(kafka_cluster: Cluster) -> None:
    lines = list(follow_record(EmbeddedKafka(kafka_cluster), AHEAD, RECORD))
    assert lines == [
        ("sent, no answer asked for", "sent", "sent"),
        (
            "request lost on its way",
            "appended at offset 2, acknowledgement lost",
            "appended at offset 2, acknowledgement lost",
        ),
        (
            "nobody noticed: not sent again",
            "sent again, appended again at offset 3",
            "sent again, recognised: acknowledged as offset 2",
        ),
        ("stored: not at all", "stored: twice (offsets 2 and 3)", "stored: once (offset 2)"),
    ]


def test_it_cleans_up_after_itself(kafka_cluster: Cluster) -> None:
    for _ in follow_record(EmbeddedKafka(kafka_cluster), AHEAD, RECORD):
        pass
    with Admin(kafka_cluster.bootstrap_servers) as admin:
        assert not [name for name in admin.list_topics() if name.startswith("record-")]


def test_it_needs_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from ottla.cluster.cluster import Cluster\n"
        "from ottla.inputs.source import open_source\n"
        "from ottla.screen import open_console\n"
        "from ottla.showcase import lanes, run\n"
        "from ottla.showcase.kafka import EmbeddedKafka\n"
        "with Cluster() as cluster:\n"
        "    lanes.show_lanes(open_console(), *run._one_record(EmbeddedKafka(cluster), open_source(None, None)))\n"
        "heavy = {'numpy', 'pandas', 'pyarrow', 'pyspark'} & set(sys.modules)\n"
        "sys.exit(f'{heavy} loaded' if heavy else 0)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "flight B6 725, JFK to BQN, 2013-01-01 at 5:45, tail N804JB" in ended.stdout
    assert "stored: once (offset 3)" in ended.stdout


def test_a_narrow_terminal_loses_no_letter() -> None:
    told = io.StringIO()
    lost = "appended at offset 2, acknowledgement lost"
    show_lanes(Console(file=told, width=40), "id=1", [("request lost on its way", lost, lost)])
    assert "…" not in told.getvalue()
    assert all(len(line) <= 40 for line in told.getvalue().splitlines()), told.getvalue()
