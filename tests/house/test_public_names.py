"""Type checkers see every public name of `ottla` with its type, and report misspelt names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ottla

ROOT = Path(__file__).parents[2]


def checked(folder: Path, code: str) -> str:
    """What mypy --strict says of a program that uses the package as anybody would."""
    program = folder / "program.py"
    program.write_text(code)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(program)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300).stdout


def test_a_checker_knows_every_public_name_and_its_type(tmp_path: Path) -> None:
    names = [name for name in ottla.__all__ if name != "__version__"]
    said = checked(tmp_path, "import ottla\n" + "".join(f"reveal_type(ottla.{name})\n" for name in names))
    revealed = [line.partition("Revealed type is ")[2] for line in said.splitlines() if "Revealed type is " in line]
    assert len(revealed) == len(names), said
    assert [name for name, kind in zip(names, revealed, strict=True) if kind == '"Any"'] == []


def test_a_checker_refuses_a_misspelt_name(tmp_path: Path) -> None:
    said = checked(
        tmp_path,
        "import ottla\nfrom ottla import Prodcuer\n"
        'try:\n    ottla.Producr("one:9092")\nexcept ottla.KafkaEror:\n    pass\n',
    )
    for name in ("Prodcuer", "Producr", "KafkaEror"):
        assert f'has no attribute "{name}"' in said
    assert said.count("error: ") == 3


def test_a_checker_refuses_names_of_other_clients(tmp_path: Path) -> None:
    """At run time they are answered with what there is instead; a checker does not know them."""
    said = checked(
        tmp_path,
        "import ottla\n"
        "def uses(p: ottla.Producer, a: ottla.AsyncProducer, r: ottla.Reader, d: ottla.Delivery) -> None:\n"
        "    p.poll, p.produce, a.start, r.subscribe, d.get, ottla.Admin('one:9092').describe_topics\n"
        "    ottla.KafkaProducer, ottla.Producer()\n",
    )
    for name in ("poll", "produce", "start", "subscribe", "get", "describe_topics", "KafkaProducer"):
        assert f'has no attribute "{name}"' in said
    assert 'Missing positional argument "bootstrap_servers"' in said
    assert said.count("error: ") == 8


@pytest.mark.parametrize(
    ("wrong", "right"), [("Producr", "Producer"), ("KafkaEror", "KafkaError"), ("asyncproducer", "AsyncProducer")]
)
def test_a_misspelt_name_is_told_the_one_that_comes_nearest(wrong: str, right: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(ottla, wrong)
    assert str(caught.value) == f"module 'ottla' has no attribute {wrong!r}; did you mean {right}?"


def test_the_name_that_comes_nearest_is_told_once() -> None:
    """Python has a hint of its own for the traceback."""
    done = subprocess.run([sys.executable, "-c", "import ottla; ottla.Producr"], capture_output=True, text=True)
    assert done.stderr.lower().count("did you mean") == 1


def test_a_name_like_nothing_known_is_an_attribute_error_as_ever() -> None:
    with pytest.raises(AttributeError, match=r"^module 'ottla' has no attribute 'zzz'$"):
        ottla.zzz  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(ottla, "__wrapped__")
