"""Fetches Apache Kafka's jars from Maven Central, once, into a cache folder.

The message generator reads the descriptors inside kafka-clients, and the interop tests start a real broker
from these jars; they also take Spark's Kafka connector and Apicurio Registry, into folders beside. What is fetched
stands in the files of `kafka-jars`. Run it (`python tools/kafka_jars.py`) and it
prints the folder; import it and call `fetch()`. A folder appears under its final name only when complete,
so a run that was cut short, or two runs at once, leave no half-filled cache behind.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = "4.3.1"
CACHE_FOLDER = Path.home() / ".cache" / "ottla" / f"kafka-{VERSION}"
_POMS = Path(__file__).resolve().parent / "kafka-jars"
MIN_JAVA = 17
# One jar of each direct dependency: a folder that holds them holds the rest too, it was moved there whole.
EXPECTED = (
    f"kafka_2.13-{VERSION}.jar",
    f"kafka-tools-{VERSION}.jar",
    f"kafka-clients-{VERSION}.jar",
    "log4j-slf4j-impl-2.24.3.jar",
    "log4j-core-2.24.3.jar",
)
SPARK_CONNECTOR_VERSION = "4.2.0"
SPARK_CONNECTOR_FOLDER = CACHE_FOLDER.parent / f"spark-connector-{SPARK_CONNECTOR_VERSION}"
SPARK_CONNECTOR_EXPECTED = (
    f"spark-sql-kafka-0-10_2.13-{SPARK_CONNECTOR_VERSION}.jar",
    f"spark-token-provider-kafka-0-10_2.13-{SPARK_CONNECTOR_VERSION}.jar",
    "kafka-clients-3.9.2.jar",
    "commons-pool2-2.13.1.jar",
)
SPARK_AVRO_FOLDER = CACHE_FOLDER.parent / f"spark-avro-{SPARK_CONNECTOR_VERSION}"
SPARK_AVRO_EXPECTED = (f"spark-avro_2.13-{SPARK_CONNECTOR_VERSION}.jar",)
APICURIO_VERSION = "2.6.13.Final"
APICURIO_FOLDER = CACHE_FOLDER.parent / f"apicurio-{APICURIO_VERSION}"
APICURIO_JAR = f"apicurio-registry-app-{APICURIO_VERSION}-runner.jar"


class JarsUnavailable(Exception):
    """Kafka's jars, or the Java to run them, cannot be had here; the message says what is missing."""


def find_java() -> str:
    """The path of a `java` that can run Kafka (JAVA_HOME first, then PATH).

    Raises JarsUnavailable where there is none or it is older than Java 17.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin")) if home else None
    java = java or shutil.which("java")
    if java is None:
        raise JarsUnavailable(
            f"Apache Kafka {VERSION} needs Java {MIN_JAVA} or newer: no `java` in JAVA_HOME or on the PATH; "
            "install a JDK or set JAVA_HOME"
        )
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', said.stderr)
    if found is None or int(found[1]) < MIN_JAVA:
        release = found[1] if found else "unknown"
        raise JarsUnavailable(
            f"Apache Kafka {VERSION} needs Java {MIN_JAVA} or newer: {java} is version {release}; "
            "install a newer JDK or set JAVA_HOME"
        )
    return java


def fetch(folder: Path | None = None) -> Path:
    """The folder with Kafka's jars, fetched by Maven where they are not there yet (55 MB).

    `folder` defaults to ~/.cache/ottla/kafka-4.3.1. Raises JarsUnavailable when Maven is missing or fails.
    """
    return _fetch((folder or CACHE_FOLDER).expanduser(), "pom.xml", EXPECTED, f"Apache Kafka {VERSION}")


def fetch_spark_connector() -> Path:
    """The folder with Spark's Kafka connector and what it needs beside PySpark's own jars (10 MB); else as `fetch`."""
    what = f"Spark's Kafka connector {SPARK_CONNECTOR_VERSION}"
    return _fetch(SPARK_CONNECTOR_FOLDER, "spark-connector.xml", SPARK_CONNECTOR_EXPECTED, what)


def fetch_spark_avro() -> Path:
    """The folder with Spark's own Avro functions, which PySpark does not bring (200 KB); else as `fetch`."""
    what = f"Spark's Avro functions {SPARK_CONNECTOR_VERSION}"
    return _fetch(SPARK_AVRO_FOLDER, "spark-avro.xml", SPARK_AVRO_EXPECTED, what)


def fetch_apicurio() -> Path:
    """The folder with Apicurio Registry, whose `APICURIO_JAR` runs (140 MB); else as `fetch`."""
    what = f"Apicurio Registry {APICURIO_VERSION}"
    return _fetch(APICURIO_FOLDER, "apicurio.xml", (APICURIO_JAR,), what, "unpack-dependencies")


def _fetch(folder: Path, pom: str, expected: tuple[str, ...], what: str, goal: str = "copy-dependencies") -> Path:
    if is_complete(folder, expected):
        return folder
    if folder.exists() and any(folder.iterdir()):
        raise JarsUnavailable(f"{folder} does not hold {what}'s jars; remove it or name another folder")
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsUnavailable(
            f"{what}'s jars are not in {folder} and Maven is missing: no `mvn` on the PATH; "
            f"install Maven, or put the jars named in tools/kafka-jars/{pom} there"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        arriving = Path(scratch) / "jars"
        wrong = run_maven(maven, _POMS / pom, arriving, goal)
        if wrong is not None or not is_complete(arriving, expected):
            raise JarsUnavailable(f"Maven could not fetch {what}'s jars: {wrong or 'some are missing'}")
        try:
            if folder.exists():
                folder.rmdir()
            arriving.rename(folder)
        except OSError:
            # Somebody else's fetch got there first; theirs is as good as ours.
            if not is_complete(folder, expected):
                raise
    return folder


def is_complete(folder: Path, expected: tuple[str, ...]) -> bool:
    """Whether every jar that was asked for is there."""
    return all((folder / name).is_file() for name in expected)


def run_maven(maven: str, pom: Path, target: Path, goal: str = "copy-dependencies") -> str | None:
    """Copy the dependencies of the pom, and theirs, into `target`, or unpack them there ("unpack-dependencies").

    What went wrong, None where nothing did.
    """
    command = [maven, "--batch-mode", "--quiet", "--file", str(pom), f"dependency:{goal}"]
    done = subprocess.run(
        # Notes of what was unpacked, which would otherwise lie beside the pom.
        [
            *command,
            "-DincludeScope=runtime",
            f"-DoutputDirectory={target}",
            f"-DmarkersDirectory={target.with_name('markers')}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return None
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
    return lines[0].removeprefix("[ERROR] ") if lines else f"exit status {done.returncode}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetch Apache Kafka's jars and print their folder.")
    parser.add_argument("--folder", type=Path, default=CACHE_FOLDER, help="where to keep them (%(default)s)")
    try:
        print(fetch(parser.parse_args().folder))
    except JarsUnavailable as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
