"""Tables on narrow screens: nothing is cut off, and where they fit they stay as they are."""

from __future__ import annotations

import pytest

from ottla.cli.output import new_table, tell

HEADINGS = "partition", "leader", "replicas", "in sync", "first offset", "end offset"
ROWS = [("0", "1", "1 2 3", "1 2 3", "0", "36400"), ("11", "none", "2 3 1", "", "123456789012", "987654321098")]


def shown(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    table = new_table(*HEADINGS, right=HEADINGS)
    for row in ROWS:
        table.add_row(*row)
    tell(table)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= width
    return lines


def test_a_table_that_fits_is_a_line_a_row(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(80, monkeypatch, capsys) == [
        "partition  leader  replicas  in sync  first offset    end offset",
        "        0       1     1 2 3    1 2 3             0         36400",
        "       11    none     2 3 1           123456789012  987654321098",
    ]


def test_headings_are_broken_before_numbers_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(62, monkeypatch, capsys) == [
        "                                in",
        "partition  leader  replicas   sync  first offset    end offset",
        "        0       1     1 2 3  1 2 3             0         36400",
        "       11    none     2 3 1         123456789012  987654321098",
    ]


def test_a_row_becomes_a_block_where_lines_are_too_short(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(40, monkeypatch, capsys) == [
        "partition     0",
        "leader        1",
        "replicas      1 2 3",
        "in sync       1 2 3",
        "first offset  0",
        "end offset    36400",
        "",
        "partition     11",
        "leader        none",
        "replicas      2 3 1",
        "first offset  123456789012",
        "end offset    987654321098",
    ]


@pytest.mark.parametrize("width", [1, 20, 30, 40, 50, 60, 80])
def test_text_is_folded_and_numbers_stay_whole(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    table = new_table("topic", "partitions", "records", right=("partitions", "records"))
    name = "".join(chr(ord("a") + number % 26) for number in range(60))
    table.add_row(name, "3", "1,234,567")
    tell(table)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    if width > 20:
        assert "1,234,567" in "\n".join(lines)
    assert "…" not in "\n".join(lines)
