"""Writes CHANGELOG.md out of the fragments in changes/.

    python tools/changelog.py               # the draft of the next version; the fragments stay
    python tools/changelog.py --release     # the version, with today's date; the fragments are removed

The version is that of pyproject.toml. The draft is replaced each time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "CHANGELOG.md"
# Behind this line towncrier puts a version.
START = "<!-- towncrier release notes start -->\n"
HEAD = f"# Changelog\n\nWhat a user can see of each version, newest first.\n\n{START}"


def without_draft(text: str, heading: str) -> str:
    """The changelog without the section of this heading, which is the first one where there is one."""
    before, found, rest = text.partition(f"\n{heading}\n")
    if not found:
        return text
    _, older, versions = rest.partition("\n## ")
    return f"{before}\n{older.lstrip()}{versions}" if older else before


def main() -> None:
    parser = argparse.ArgumentParser(description="Write CHANGELOG.md out of changes/.")
    parser.add_argument("--release", action="store_true", help="date the version, and remove the fragments")
    is_release = parser.parse_args().release
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    text = FILE.read_text(encoding="utf-8") if FILE.exists() else HEAD
    if not text.startswith(HEAD.rstrip("\n")):
        sys.exit(f"{FILE.name} must begin as this tool begins it: a line `{START.strip()}` after the first sentence")
    text = without_draft(text, f"## {version} (draft)")
    if f"\n## {version} (" in text:
        sys.exit(f"{version} is released already: give pyproject.toml the next version")
    towncrier = [sys.executable, "-m", "towncrier", "build", "--version", version]
    if is_release:
        FILE.write_text(text, encoding="utf-8")
        subprocess.run([*towncrier, "--yes"], cwd=ROOT, check=True)
        return
    draft = subprocess.run(
        [*towncrier, "--draft", "--date", "draft"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    FILE.write_text(text.replace(START, f"{START}\n{draft.strip()}\n", 1), encoding="utf-8")


if __name__ == "__main__":
    main()
