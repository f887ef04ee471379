"""The clients that come with ottla, each in a real trial, and the one that docs/trial-clients.md shows."""

from __future__ import annotations

import re
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from ottla.errors import UserMistake
from ottla.trial.client_build import BUILDS
from ottla.trial.client_choice import CLIENTS, OTTLA, client_by_command, client_named
from ottla.trial.outcome import TrialOutcome
from ottla.trial.run import run_scenario
from ottla.trial.scenario_file import read_scenario
from ottla.trial.sender import Opening

PAGE = Path(__file__).parents[2] / "docs" / "trial-clients.md"
CONTROL = '[[side]]\nname = "control"\nclaims = "at-least-once"\nshows = ["duplicated"]\n'
SOUND = '[[side]]\nname = "sound"\nclaims = "exactly-once"\n'
HEAD = f"""
title = "t"
teaches = "t"
records = 60
partitions = 2
flush_every = 20

[[fault]]
kind = "lose_ack"
nth = 2

{CONTROL}producer = {{ acks = "all", "enable.idempotence" = false }}

"""
IDEMPOTENT = f'{HEAD}{SOUND}producer = {{ acks = "all", "enable.idempotence" = true }}\n'


class Silent:
    def advance(self, count: int = 1) -> None: ...


def run(text: str, opening: Opening) -> TrialOutcome:
    scenario = read_scenario("mine", text, "mine.toml", for_ottla=False)
    return run_scenario(scenario, lambda *_: nullcontext(Silent()), opening)


def opening_of(name: str) -> Opening:
    """The client, or a test that is skipped because a tool of its language is missing."""
    if name in BUILDS:
        missing = [tool for tool in BUILDS[name].tools if shutil.which(tool) is None]
        if missing:
            pytest.skip(f"the client {name} needs {', '.join(missing)}, which is not on the PATH")
    return client_named(name, lambda words: None)


@pytest.mark.parametrize(
    "name",
    [
        each if each == "confluent-kafka" else pytest.param(each, marks=pytest.mark.prove)
        for each in CLIENTS
        if each != OTTLA
    ],
)
def test_a_client_that_comes_with_ottla_shows_both_sides_of_a_lost_ack(name: str) -> None:
    outcome = run(IDEMPOTENT, opening_of(name))
    assert outcome.passed, outcome.to_dict()
    control, sound = outcome.sides
    assert control.found["duplicated"] > 0
    # Who it is, and a version.
    assert re.fullmatch(r".+ \d+\.\d+.*", outcome.client)
    if name == "rskafka":
        assert sound.impossible == "it cannot be given enable.idempotence=true"
    else:
        assert (
            sound.verdict.figures.to_dict() | {"sent": 60, "acked": 60, "stored": 60} == sound.verdict.figures.to_dict()
        )
        assert sound.found == {}


@pytest.mark.prove
@pytest.mark.parametrize("name", [each for each in CLIENTS if each not in (OTTLA, "rskafka")])
def test_a_client_without_acks_knows_nothing_of_its_records(name: str) -> None:
    opening = opening_of(name)
    text = IDEMPOTENT.replace('acks = "all", "enable.idempotence" = true', 'acks = 0, "enable.idempotence" = false')
    (_, side) = run(text.replace('"exactly-once"', '"at-most-once"'), opening).sides
    assert (side.impossible, side.problems) == (None, ())
    assert (side.verdict.figures.sent, side.verdict.figures.acked, side.verdict.figures.unknown) == (60, 0, 60)


def test_a_setting_that_a_client_does_not_have_is_told_and_nothing_is_sent() -> None:
    text = IDEMPOTENT.replace('"enable.idempotence" = true', '"enable.idempotence" = true, "metadata.max.idle.ms" = 9')
    outcome = run(text, opening_of("confluent-kafka"))
    control, side = outcome.sides
    assert side.impossible == "it cannot be given metadata.max.idle.ms=9"
    assert (side.verdict.figures.sent, side.void, side.is_as_expected) == (0, (), True)
    assert outcome.passed
    assert control.impossible is None


def test_settings_that_contradict_each_other_are_told_in_the_clients_own_words() -> None:
    text = IDEMPOTENT.replace('acks = "all", "enable.idempotence" = true', 'acks = 1, "enable.idempotence" = true')
    side = run(text, opening_of("confluent-kafka")).sides[1]
    assert side.impossible is not None
    assert "`acks` must be set to `all` when `enable.idempotence` is true" in side.impossible


def test_a_trial_without_a_control_that_is_possible_proves_nothing() -> None:
    text = IDEMPOTENT.replace(
        '"enable.idempotence" = false', '"enable.idempotence" = false, "metadata.max.idle.ms" = 9'
    )
    outcome = run(text, opening_of("confluent-kafka"))
    assert not outcome.is_controlled
    assert not outcome.passed


def test_the_client_on_the_page_is_a_whole_one(tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    (tmp_path / "client.py").write_text(block)
    assert len(block.splitlines()) <= 40
    outcome = run(IDEMPOTENT, client_by_command(f"{sys.executable} {tmp_path / 'client.py'}"))
    assert outcome.passed, outcome.to_dict()
    assert outcome.client.startswith("my-client ")


def test_the_page_names_every_client_and_every_source_that_it_links_is_there() -> None:
    text = PAGE.read_text()
    table = text[text.index("| `--client` |") : text.index("`--command` starts")]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, flags=re.MULTILINE)[1:] == list(CLIENTS)
    linked = re.findall(r"\]\((\.\./src/[^)]+)\)", text)
    assert len(linked) == 5
    assert all((PAGE.parent / path).is_file() for path in linked)


def test_a_client_that_is_killed_in_the_middle_voids_its_side_and_what_it_told_is_judged() -> None:
    program = (
        "import sys, json, os\n"
        "json.loads(sys.stdin.readline())\n"
        'print(json.dumps({"client": "mine", "version": "1"}), flush=True)\n'
        'print(json.dumps({"number": json.loads(sys.stdin.readline())["number"], "outcome": "acked", "partition": 0, '
        '"offset": 0}), flush=True)\n'
        "os.kill(os.getpid(), 9)\n"
    )
    outcome = run(IDEMPOTENT, client_by_command(f"{sys.executable} -c '{program}'"))
    for side in outcome.sides:
        assert side.void[0] == "the client was killed by SIGKILL while there was more for it to do"
        assert side.verdict.figures.acked == 1
        assert side.found["lost"] == 1
    assert not outcome.is_controlled


def test_a_client_whose_library_is_missing_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kafka", raising=False)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(
        UserMistake, match=r"--client kafka-python needs the library kafka-python: pip install kafka-pyt"
    ):
        client_named("kafka-python", lambda words: None)


@pytest.mark.parametrize(
    ("name", "words"), [("java", "a JDK of version 17 or newer"), ("franz-go", "Go"), ("kafkajs", "Node")]
)
def test_a_client_whose_language_is_missing_is_told(monkeypatch: pytest.MonkeyPatch, name: str, words: str) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserMistake, match=f"--client {name} needs {words}.*: there is no '.*' on the PATH"):
        client_named(name, lambda words: None)


def test_a_client_that_cannot_be_built_is_told_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The tool is there and fails: its own words are told."""
    tools = tmp_path / "bin"
    tools.mkdir()
    go = tools / "go"
    go.write_text("#!/bin/sh\necho 'go: error: no route to the modules' >&2\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/bin:/usr/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    said: list[str] = []
    with pytest.raises(UserMistake, match=r"--client franz-go cannot be built: go build .*: no route to the modules"):
        client_named("franz-go", said.append)
    assert said[0].startswith("Building the client franz-go, once, in ")
    assert list((tmp_path / "ottla" / "clients").iterdir()) == []
