"""Command lines that a shell completes: commands, options, and the names of topics and groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from ottla.cli import main
from ottla.client.offset_lookup import OffsetLookup
from ottla.cluster.cluster import Cluster

Complete = Callable[[str], list[str]]


def as_bash(line: str) -> dict[str, str]:
    return {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}


def as_zsh(line: str) -> dict[str, str]:
    return {"_TYPER_COMPLETE_ARGS": line}


def as_fish(line: str) -> dict[str, str]:
    return {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}


def offered_by_bash(answer: str) -> list[str]:
    return answer.split()


def offered_by_zsh(answer: str) -> list[str]:
    """`_arguments '*: :(("topics":"List topics ..." ...))'`, or what makes it offer files."""
    if answer == "_files\n":
        return []
    assert re.fullmatch(r"_arguments '\*: :\(\(.*\)\)'\n", answer, re.DOTALL)
    return re.findall(r'^(?:_arguments .*\(\()?"([^"]*)"', answer, re.MULTILINE)


def offered_by_fish(answer: str) -> list[str]:
    """A line for each, with what it is for behind a tab."""
    return [line.split("\t")[0] for line in answer.splitlines() if line]


# What the script of `--install-completion` puts into the environment, and how the shell reads the answer.
SHELLS = {"bash": (as_bash, offered_by_bash), "zsh": (as_zsh, offered_by_zsh), "fish": (as_fish, offered_by_fish)}


@pytest.fixture(params=SHELLS)
def complete(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], patient: None
) -> Complete:
    asked, offered = SHELLS[request.param]

    def completed(line: str) -> list[str]:
        """What the shell offers at the end of this line."""
        monkeypatch.setenv("_OTTLA_COMPLETE", f"complete_{request.param}")
        for name, value in asked(line).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main([])
        shown = capfd.readouterr()
        assert (ended.value.code, shown.err) == (0, "")
        return offered(shown.out)

    return completed


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shells_script_asks_as_these_tests_do(
    shell: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_OTTLA_COMPLETE", f"source_{shell}")
    with pytest.raises(SystemExit) as ended:
        main([])
    script = capfd.readouterr().out
    assert ended.value.code == 0
    assert f"_OTTLA_COMPLETE=complete_{shell}" in script
    asked, _ = SHELLS[shell]
    assert [name for name in asked("ottla ") if f"{name}=" not in script] == []


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
