"""What `ottla simulate` shows, writes and keeps when something is found: in a control without the sequence check."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from contextlib import closing, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tools.mutation.control import Control
from tools.mutation.weaknesses import weakened

from ottla.audit.findings import DUPLICATED
from ottla.seeds.kept_plan import read_plan
from ottla.seeds.processes import PlanRuns
from ottla.seeds.simulate import SimulateOptions, simulate_all
from ottla.simulation.draw import draw
from ottla.simulation.outcome import Outcome, kinds_of
from ottla.simulation.run import execute


@pytest.fixture(scope="module")
def weak() -> Iterator[Control]:
    with weakened("no_sequence_check") as control:
        yield control


@pytest.fixture(scope="module")
def failing(weak: Control) -> int:
    """The first seed in which a record is stored twice; which one that is changes with what is drawn."""
    return next(seed for seed in range(100) if DUPLICATED in kinds_of(weak.call(execute, draw(seed)))[:1])


def asked(**options: object) -> SimulateOptions:
    return SimulateOptions(**{"seeds": 1, "first_seed": None, "jobs": 1, **options})  # type: ignore[arg-type]


def simulated(options: SimulateOptions) -> tuple[int, str]:
    """Exit status and standard output."""
    with redirect_stdout(io.StringIO()) as told:
        status = simulate_all(options)
    return status, told.getvalue()


class Told(NamedTuple):
    """What is left of a command: its exit status, its output, the page, and the file of the smaller plan."""

    status: int
    output: str
    page: Path
    kept: Path


@pytest.fixture(scope="module")
def told_of_one(weak: Control, failing: int, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The failing seed, made smaller, which takes many runs."""
    folder = tmp_path_factory.mktemp("told")
    page, kept = folder / "story.html", folder / "kept"
    status, output = weak.call(simulated, asked(seed=failing, keep=kept, story=page))
    return Told(status, output, page, kept / f"seed-{failing}.json")


def test_a_failing_seed_is_told_kept_and_made_a_page(weak: Control, failing: int, told_of_one: Told) -> None:
    status, told, page, kept = told_of_one
    assert status == 1
    assert f"seed {failing}: " in told
    assert "“duplicated” with " in told
    story = told[told.index("“duplicated” with ") :]
    assert "✗ duplicated: record" in story
    assert "is stored at offsets 0" in page.read_text()
    plan = read_plan(kept).plan
    assert plan.records <= 3
    assert execute(plan).is_clean
    assert not weak.call(execute, plan).is_clean


def test_the_story_of_a_failing_seed_is_written_though_it_is_not_made_smaller(
    weak: Control, failing: int, tmp_path: Path
) -> None:
    page = tmp_path / "story.html"
    status, told = weak.call(simulated, asked(seed=failing, story=page, shrink=False))
    assert status == 1
    assert f"its story: {page}" in told.replace("\n", "")
    assert "duplicated: record" in page.read_text()


class _Closed(io.TextIOWrapper):
    """What reads this has gone away once the story begins."""

    def write(self, text: str) -> int:
        if "“duplicated” with " in text:
            raise BrokenPipeError
        return super().write(text)


def simulated_for_who_goes_away(options: SimulateOptions) -> None:
    with redirect_stdout(_Closed(io.FileIO(os.devnull, "wb"))), pytest.raises(SystemExit):
        simulate_all(options)


def test_files_are_written_before_anybody_can_have_enough_of_the_story(
    weak: Control, failing: int, told_of_one: Told, tmp_path: Path
) -> None:
    page, kept = tmp_path / "story.html", tmp_path / "kept"
    weak.call(simulated_for_who_goes_away, asked(plan=told_of_one.kept, keep=kept, story=page))
    assert "is stored at offsets 0" in page.read_text()
    assert read_plan(kept / f"seed-{failing}.json").plan.records <= 3


def test_of_many_seeds_each_that_fails_is_named_and_kept(weak: Control, failing: int, tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    options = asked(seeds=4, first_seed=failing, jobs=2, keep=tmp_path / "kept", json_file=str(figures), shrink=False)
    status, told = weak.call(simulated, options)
    assert status == 1
    found = [outcome["seed"] for outcome in json.loads(figures.read_text())["failed"]]
    assert found[0] == failing
    for seed in found:
        assert f"ottla simulate --seed {seed} " in told
        assert (tmp_path / "kept" / f"seed-{seed}.json").exists()
    assert f"4 run, {len(found)} failed" in told


def test_without_a_weakness_nothing_is_kept(tmp_path: Path) -> None:
    assert simulate_all(SimulateOptions(1, 1, 1, keep=tmp_path / "kept")) == 0
    assert list((tmp_path / "kept").iterdir()) == []


def test_the_one_seed_that_was_asked_for_is_kept_although_it_is_clean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = SimulateOptions(1, None, 1, seed=1, keep=tmp_path / "kept")
    path = tmp_path / "kept" / "seed-1.json"
    assert simulate_all(options) == 0
    assert f"kept: ottla simulate --plan {path}" in "".join(capsys.readouterr().out.splitlines())
    assert json.loads(path.read_text())["found"]["clean"] is True
    path.write_text("what was found before")
    assert simulate_all(options) == 0
    assert "seed-1.json is not changed" in capsys.readouterr().out
    assert path.read_text() == "what was found before"


def test_a_plan_in_which_nothing_was_found_is_not_kept_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate_all(SimulateOptions(1, None, 1, seed=1, keep=tmp_path)) == 0
    options = SimulateOptions(1, None, 1, plan=tmp_path / "seed-1.json", keep=tmp_path / "other")
    assert simulate_all(options) == 0
    told = "".join(capsys.readouterr().out.splitlines())
    assert f"nothing was found: nothing is written to {tmp_path / 'other'}" in told
    assert not [*(tmp_path / "other").iterdir()]


def interrupted(*arguments: Any, **options: Any) -> Any:
    raise KeyboardInterrupt


def simulated_until_it_is_made_smaller(options: SimulateOptions) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ottla.seeds.simulate.shrink", interrupted)
        with pytest.raises(KeyboardInterrupt):
            simulate_all(options)


@pytest.mark.parametrize("option", ["seed", "plan"])
def test_what_failed_is_written_and_kept_even_if_nobody_waits_until_it_is_smaller(
    option: str, weak: Control, failing: int, tmp_path: Path
) -> None:
    figures, kept, plan = tmp_path / "figures.json", tmp_path / "kept", tmp_path / "plan.json"
    plan.write_text(json.dumps(draw(failing).to_dict()))
    given = failing if option == "seed" else plan
    options = asked(**{option: given}, keep=kept, json_file=str(figures))
    weak.call(simulated_until_it_is_made_smaller, options)
    written = json.loads(figures.read_text())
    assert (written["seed"], written["clean"], written["shrunk"]) == (failing, False, None)
    assert read_plan(kept / f"seed-{failing}.json").plan == draw(failing)


def test_who_has_no_time_gets_the_smallest_found_until_then_and_is_told(
    weak: Control, failing: int, tmp_path: Path
) -> None:
    figures, kept = tmp_path / "figures.json", tmp_path / "kept"
    status, told = weak.call(simulated, asked(seed=failing, shrink_s=0.01, keep=kept, json_file=str(figures)))
    assert status == 1
    assert " in 0.01 s, stopped early: the smallest found until then; --shrink-seconds says how long" in told
    assert "is stored at offsets " in told
    shrunk = json.loads(figures.read_text())["shrunk"]
    assert (shrunk["stopped_early"], shrunk["runs"] <= 1) == (True, True)
    assert read_plan(kept / f"seed-{failing}.json").plan == draw(failing)


def test_a_smaller_plan_that_never_ends_takes_no_longer_than_there_is_time() -> None:
    with closing(PlanRuns()) as runs:
        given_up = runs.run(draw(7), patience_s=0)
        assert (given_up.seed, given_up.trace_hash) == (7, "")
        assert "it had not come to an end after " in str(given_up.crashed)
        # The next one finds a process of its own, and the one after that the same.
        assert [runs.run(draw(seed)).trace_hash for seed in (7, 8)] == [execute(draw(s)).trace_hash for s in (7, 8)]


@pytest.mark.parametrize(("after", "words"), [(0, "0 of 3 run, none failed"), (2, "2 of 3 run, none failed")])
def test_an_interrupted_run_says_how_many_were_run(
    after: int, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(seeds: range, *arguments: Any, **options: Any) -> Iterator[Outcome]:
        yield from (Outcome(seed, "made up") for seed in seeds[:after])
        raise KeyboardInterrupt

    monkeypatch.setattr("ottla.seeds.simulate.run_seeds", interrupted)
    with pytest.raises(KeyboardInterrupt):
        simulate_all(SimulateOptions(3, 0, 1))
    told = capsys.readouterr().out
    assert f"seeds 0 to 2, interrupted: {words}\n" in told
    assert "clean" not in told


def test_of_one_seed_too_it_is_told_what_was_not_wholly_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for unseen in ((), ("lost", "stuck")):
        monkeypatch.setattr(
            "ottla.seeds.simulate.run_plan",
            lambda plan, unseen=unseen, **options: Outcome(plan.seed, "made up", unseen=unseen),
        )
        assert simulate_all(SimulateOptions(1, None, 1, seed=3)) == 0
        assert ("not wholly seen  lost; stuck" in capsys.readouterr().out) == bool(unseen)


@pytest.mark.parametrize("option", ["seed", "plan"])
def test_one_run_that_does_not_end_is_given_up_as_one_of_many_is(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, figures = tmp_path / "plan.json", tmp_path / "figures.json"
    plan.write_text(json.dumps(draw(7).to_dict()))
    given: Any = {"seed": 7} if option == "seed" else {"plan": plan}
    options = SimulateOptions(1, None, 1, keep=tmp_path / "kept", json_file=str(figures), patience_s=0, **given)
    assert simulate_all(options) == 1
    assert "seed 7: it had not come to an end after " in capsys.readouterr().out
    assert "s of real time" in json.loads(figures.read_text())["crashed"]
    assert read_plan(tmp_path / "kept" / "seed-7.json").plan == draw(7)
