"""Command lines that a shell completes: commands, options, and the names of topics and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ottla.cli import main
from ottla.client.offset_lookup import OffsetLookup
from ottla.cluster.cluster import Cluster

Complete = Callable[[str], list[str]]


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Complete:
    def completed(line: str) -> list[str]:
        """What bash offers at the end of this line."""
        monkeypatch.setenv("_OTTLA_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        with pytest.raises(SystemExit) as ended:
            main([])
        shown = capfd.readouterr()
        assert (ended.value.code, shown.err) == (0, "")
        return shown.out.split()

    return completed


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Cluster(1) as cluster:
        for name in ("orders", "orders-late", "other"):
            cluster.create_topic(name)
        lookup = OffsetLookup(cluster.bootstrap_servers)
        lookup.commit("order-billing", {("orders", 0): 0}, 30_000)
        lookup.close()
        yield cluster.bootstrap_servers


def test_commands_and_options_are_completed(complete: Complete) -> None:
    assert complete("ottla to") == ["topics"]
    assert complete("ottla groups d") == ["describe", "delete"]
    assert complete("ottla topics create orders --rep") == ["--replicas"]
    assert "--install-completion" in complete("ottla --")


def test_topics_and_groups_are_completed_by_the_brokers_of_the_line(complete: Complete, servers: str) -> None:
    for line in ("read -b {} ord", "produce -b {} ord", "topics -b {} delete ord", "topics trim -b {} ord"):
        assert complete(f"ottla {line.format(servers)}") == ["orders", "orders-late"]
    assert complete(f"ottla groups -b {servers} reset order-billing -t ot") == ["other"]
    assert complete(f"ottla groups -b {servers} describe or") == ["order-billing"]


def test_what_cannot_be_completed_gives_nothing(complete: Complete, servers: str) -> None:
    for line in (
        "read -b nowhere ord",
        "topics delte orders ",
        f"topics -b {servers} create ord",
        "read --limit x -b ",
    ):
        assert complete(f"ottla {line}") == []
