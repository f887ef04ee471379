"""Draws the README's pictures, docs/one-record.svg and docs/verdict.svg, out of what `ottla run` prints.

python tools/pictures.py                    # runs it: a minute, and Spark
python tools/pictures.py --from FILE        # what it has printed before, with colours (FORCE_COLOR=1 COLUMNS=112)
"""

from __future__ import annotations

import argparse
import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

FOLDER = Path(__file__).resolve().parents[1] / "docs"
COLUMNS = 112
# Each picture begins with the line that begins so, and ends before the line that begins so.
PICTURES = {
    "one-record": ("The way of one record", r"\W*read "),
    "verdict": ("guarantee  ", "Broken on purpose"),
}
# Whatever else moves the cursor, or clears what stands there, belongs to a progress bar.
CURSOR = re.compile(r"\x1b\[[0-9;?]*[A-HJKSTfhlsu]|\r")
COLOR = re.compile(r"\x1b\[[0-9;]*m")


def printed() -> str:
    """What `ottla run` prints on a terminal with colours."""
    environment = os.environ | {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS)}
    command = [sys.executable, "-m", "ottla", "run"]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def section(text: str, begin: str, end: str) -> str:
    """The lines from the one that begins with `begin` up to one that begins with `end`, colours kept."""
    kept: list[str] = []
    for line in CURSOR.sub("", text).splitlines():
        plain = COLOR.sub("", line)
        if kept and re.match(end, plain):
            return "\n".join(kept).strip("\n")
        if kept or plain.startswith(begin):
            kept.append(line.rstrip())
    sys.exit(f"`ottla run` printed no line that begins with {begin!r} and none with {end!r} behind it: change PICTURES")


def drawn(text: str, name: str) -> str:
    """The text as SVG. It loads no fonts from elsewhere."""
    width = max(len(line) for line in COLOR.sub("", text).splitlines()) + 1
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(text))
    svg = console.export_svg(title="ottla run", unique_id=name)
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the README's pictures.")
    parser.add_argument("--from", dest="file", type=Path, metavar="FILE", help="what `ottla run` has printed")
    file = parser.parse_args().file
    text = printed() if file is None else file.read_text(encoding="utf-8")
    for name, (begin, end) in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(drawn(section(text, begin, end), name), encoding="utf-8")


if __name__ == "__main__":
    main()
