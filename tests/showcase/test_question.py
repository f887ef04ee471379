"""The truth computed from a file, and how answers are held against it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ottla.inputs.source import Source, describe, open_source
from ottla.inputs.table import read_source
from ottla.showcase.question import KEYS_ASKED, DelayByOriginAndHour, RecordsByKey, compare, question_for


@pytest.fixture
def orders(tmp_path: Path) -> Source:
    path = tmp_path / "orders.csv"
    rows = [f"c{number},1" for number in range(40) for _ in range(1 + (number < 30))]
    path.write_text("customer,total\n" + "\n".join(rows) + "\n,1\n")
    return open_source(path, "customer")


def test_truth_of_the_flights_counts_every_flight_and_averages_those_that_left() -> None:
    table = pa.table({"origin": ["JFK", "JFK", "EWR"], "hour": [17, 17, 5], "dep_delay": [4, None, 1]})
    assert DelayByOriginAndHour(table).truth == {"JFK 17h": (2, 4.0), "EWR 5h": (1, 1.0)}


def test_truth_of_any_input_takes_the_frequent_keys_one_by_one_and_the_rest_together(orders: Source) -> None:
    question = RecordsByKey(read_source(orders), orders)
    assert len(question.truth) == KEYS_ASKED + 2
    assert question.truth["customer c7"] == (2, None)
    assert question.truth["all other keys together"] == (10, None)
    assert question.truth["records without a key"] == (1, None)


def test_long_keys_that_begin_alike_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    begin = "https://example.org/" + "a" * 40
    path.write_text("page,total\n" + f"{begin}/1,1\n" * 3 + f"{begin}/2,1\n" * 2 + f"b{begin},1\n")
    source = open_source(path, "page")
    counts = [count for count, _ in RecordsByKey(read_source(source), source).truth.values()]
    assert counts == [3, 2, 1]


def test_what_a_terminal_would_obey_is_spelled_out(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_text("custo\x1bmer,total\n\x1b[31mada,1\n")
    source = open_source(path, "custo\x1bmer")
    table = read_source(source)
    question = RecordsByKey(table, source)
    assert question.words == r"how many records by custo\x1bmer?"
    assert list(question.truth) == [r"custo\x1bmer \x1b[31mada"]
    assert describe(source, table.to_pylist()[0]) == r"custo\x1bmer=\x1b[31mada, total=1"


def test_flights_have_their_own_question_and_others_the_general_one(orders: Source) -> None:
    table = read_source(orders)
    assert question_for(orders, table).words == "how many records by customer?"
    flights = open_source(None, None)
    flights_table = pa.table({"origin": ["JFK"], "hour": [1], "dep_delay": [0]})
    assert "origin and hour" in question_for(flights, flights_table).words


def test_answers_are_compared_group_by_group_from_both_sides() -> None:
    truth = {"a": (10, 2.0), "b": (5, None), "gone": (1, 1.0)}
    found = {"a": (10, 2.0000001), "b": (6, None), "new": (3, 1.0)}
    answer = compare("at-least-once", truth, found)
    assert [group.label for group in answer.wrong] == ["new", "b", "gone"]
    assert [group.count for group in answer.groups] == [10, 6, 0, 3]
