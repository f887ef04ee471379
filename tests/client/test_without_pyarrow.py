"""Sending needs no pyarrow; what does need it says so, and how to get it."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
sys.modules["pyarrow"] = None  # as if it were not installed
import ottla

with ottla.Cluster(brokers=1) as cluster:
    cluster.create_topic("flights")
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        assert producer.send("flights", b"value").result(30).offset == 0
    for name, read in {
        "read_table": lambda: ottla.read_table(cluster.bootstrap_servers, "flights"),
        "Reader": lambda: next(iter(ottla.Reader(cluster.bootstrap_servers, "flights"))),
    }.items():
        try:
            read()
        except ottla.MissingExtra as error:
            print(name, error)
"""


def test_what_needs_pyarrow_says_how_to_install_it() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "read_table read_table needs pyarrow, which is not installed: pip install 'ottla[arrow]'",
        "Reader reading RecordBatches needs pyarrow, which is not installed: pip install 'ottla[arrow]'",
    ]
