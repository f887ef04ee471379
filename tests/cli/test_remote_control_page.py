"""What docs/remote-control.md shows works as it stands: its commands, and its JavaScript, against `ottla serve`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.ports import free_ports

from ottla.remote.api import ROUTES

from .serving import Serving

TIMEOUT_S = 180
PAGE = (Path(__file__).parents[2] / "docs" / "remote-control.md").read_text()
COMMANDS = [block for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL) if "ottla serve" not in block]
[SERVE] = re.findall(r"^ottla (serve .*--control 9190)$", PAGE, flags=re.MULTILINE)
[SCRIPT] = re.findall(r"```js\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    """Started as the page says, with other ports."""
    port = free_ports(3)[0]
    serving = Serving(*SERVE.replace("9190", "0").replace("9092", f"{port}").split()[1:])
    yield serving
    serving.end()


def here(text: str, serving: Serving) -> str:
    """The text with the addresses of this cluster."""
    there = {"127.0.0.1:9190": serving.told["control"], "127.0.0.1:9092": serving.servers.split(",")[0]}
    assert any(address in text for address in there) or "ottla cluster" in text
    return re.sub("|".join(there), lambda found: there[found[0]], text)


def run(serving: Serving, program: list[str], tmp_path: Path) -> str:
    (tmp_path / "ottla").write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla "$@"\n')
    (tmp_path / "ottla").chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "OTTLA_CONTROL": serving.told["control"],
    }
    done = subprocess.run(
        program, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done
    return done.stdout


@pytest.mark.parametrize("block", COMMANDS, ids=range(len(COMMANDS)))
def test_commands_run_one_after_the_other(block: str, serving: Serving, tmp_path: Path) -> None:
    if "curl" in block and shutil.which("curl") is None:
        pytest.skip("needs curl")
    said = run(serving, ["bash", "-euo", "pipefail", "-c", here(block, serving)], tmp_path)
    assert '"error"' not in said
    assert said.count("\n") >= block.count("curl")


def test_the_script_runs(serving: Serving, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node.js")
    (tmp_path / "example.mjs").write_text(here(SCRIPT, serving))
    said = run(serving, [node, "example.mjs"], tmp_path)
    assert re.fullmatch(r"broker \d leads in the place of broker \d\n", said)


def test_the_page_names_every_request_with_its_fields() -> None:
    rows = dict(re.findall(r"^\| `(\w+ /v1[^`]*)` \| .*? \| (.*?)\|$", PAGE, flags=re.MULTILINE))
    assert list(rows) == [f"{route.method} {route.path}" for route in ROUTES if route.path != "/v1"]
    for route in ROUTES[1:]:
        named = re.findall(r"`(\w+)`", rows[f"{route.method} {route.path}"])
        assert named == (["kind"] if route.takes_anything else list(route.fields()))
