"""The wheel, as somebody has it who knows nothing of this checkout: built, looked into, installed and used."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
USE = Path(__file__).with_name("smallest_use.py")
# It has 7 MB. What makes it much larger was not meant to be in it.
WHEEL_BYTES_MAX = 8_000_000

pytestmark = pytest.mark.prove


def run(*command: object, cwd: Path, **environment: str) -> str:
    """What a program prints. It finds no module here that is not installed for it."""
    known = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=900, env=known | environment
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this checkout. What `make setup` compiled is not compiled again."""
    folder = tmp_path_factory.mktemp("wheel")
    build = ["build", "--build-lib", folder / "lib", "--build-temp", folder / "temp"]
    pack = ["bdist_wheel", "--bdist-dir", folder / "bdist", "--dist-dir", folder]
    run(sys.executable, "setup.py", "-q", *build, *pack, cwd=ROOT)
    [made] = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def uv() -> str:
    own = ROOT / ".tools" / "uv" / "bin" / "uv"
    found = shutil.which("uv") or (str(own) if own.exists() else None)
    if found is None:
        pytest.skip("needs uv, which tools/setup.sh installs")
    return found


@pytest.fixture(scope="module")
def pins(uv: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The versions of uv.lock, as constraints."""
    file = tmp_path_factory.mktemp("pins") / "pins.txt"
    told = run(uv, "export", "--frozen", "--all-extras", "--no-hashes", "--no-emit-project", "--quiet", cwd=ROOT)
    # A constraint has no extras.
    file.write_text("\n".join(line for line in told.splitlines() if line and not line.startswith((" ", "#"))))
    return file


def installed(uv: str, wheel: Path, pins: Path, extras: str, folder: Path) -> Path:
    """The Python of a new environment that has the wheel and these extras."""
    run(uv, "venv", "--quiet", "--python", sys.executable, folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    wanted = f"{wheel}[{extras}]" if extras else str(wheel)
    run(uv, "pip", "install", "--quiet", "--python", python, "--constraint", pins, wanted, cwd=folder)
    return python


def test_the_wheel_has_what_is_used_and_nothing_for_the_compiler(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"ottla", "pyspark_ottla"}
    assert [name for name in names if name.endswith((".pxd", ".c", ".o"))] == []
    assert len([name for name in names if name.endswith(SUFFIX)]) == len([*(ROOT / "src").rglob(f"*{SUFFIX}")])
    pages = {Path(name).name for name in names if name.startswith("ottla/docs/")}
    assert pages == {page.name for page in (ROOT / "docs").glob("*.md")}
    assert wheel.stat().st_size < WHEEL_BYTES_MAX


def test_the_metadata_say_who_and_under_which_licence_and_links_lead_somewhere(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
    assert metadata["Author"] == "ottla maintainers"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = str(metadata.get_payload())
    assert text.startswith("# ottla")
    assert "](docs/" not in text
    assert "](CONTRIBUTING" not in text


def test_a_source_distribution_has_all_that_a_build_reads(tmp_path: Path) -> None:
    run(sys.executable, "setup.py", "-q", "sdist", "--dist-dir", tmp_path, cwd=ROOT)
    [made] = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    # `docs` is a link, whose files are there as files.
    read = {str(path.relative_to(ROOT)) for kind in ("py", "pyi", "pxd") for path in (ROOT / "src").rglob(f"*.{kind}")}
    read |= {f"src/ottla/docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert read | {"setup.py", "pyproject.toml", "README.md", "LICENSE"} <= names
    assert [name for name in names if name.endswith((".so", ".c"))] == []


# Each extra of pyproject.toml is used alone, where it can be; `run` is all of Spark.
@pytest.mark.parametrize(
    ("extras", "used"),
    [
        ("", []),
        ("arrow", ["arrow"]),
        ("cli", ["cli"]),
        ("cli,arrow", ["audit"]),
        ("console", ["arrow", "cli", "console"]),
        ("sasl,otel,aws,pkcs12,schemas", ["sasl", "otel", "aws", "schemas"]),
        pytest.param("run", ["arrow", "cli", "spark"], marks=pytest.mark.spark),
    ],
    ids=lambda value: value or "none" if isinstance(value, str) else "",
)
def test_what_an_extra_brings_works_without_the_checkout(
    extras: str, used: list[str], wheel: Path, uv: str, pins: Path, tmp_path: Path
) -> None:
    python = installed(uv, wheel, pins, extras, tmp_path)
    # As on a machine that has no Java.
    java = tmp_path / "no-java" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    path = f"{java.parent}{os.pathsep}{os.environ['PATH']}"
    assert run(python, USE, *used, cwd=tmp_path, PATH=path, JAVA_HOME="").split() == ["used:", "ottla", *used]


def test_a_project_that_uses_it_is_checked_by_its_types(wheel: Path, uv: str, pins: Path, tmp_path: Path) -> None:
    python = installed(uv, wheel, pins, "", tmp_path)
    program = tmp_path / "program.py"
    program.write_text(
        "import ottla\n"
        'with ottla.Producer("localhost:9092", linger_ms=5) as producer:\n'
        '    reveal_type(producer.send("orders", b"value"))\n'
        '    producer.send("orders", b"value", kee=b"k")\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "--config-file=", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert 'Revealed type is "ottla.records.delivery.Delivery"' in done.stdout, done.stdout
    assert 'Unexpected keyword argument "kee"' in done.stdout
    assert "Found 1 error in 1 file" in done.stdout
