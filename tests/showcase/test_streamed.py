"""The streaming job of `ottla run`: killed in the act it loses nothing, and what goes wrong in it is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cluster.cluster import Cluster
from ottla.errors import OttlaError
from ottla.showcase.streamed import stream_and_kill

pytestmark = pytest.mark.spark


def test_a_job_that_fails_says_why_and_leaves_no_process(tmp_path: Path) -> None:
    with (
        Cluster(brokers=1) as cluster,
        pytest.raises(OttlaError, match=r"job ended with status 1: .* topic 'absent', which does not exist"),
    ):
        stream_and_kill(cluster, "absent", "result", 10, 1, tmp_path)
