"""What all tests share. The fixtures `kafka_cluster` and `kafka_topic` come from ottla's own pytest plugin."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from .papers import Papers

# Where `tools` is, which tests and benchmarks share; `python -m pytest` would add it, `pytest` does not.
_ROOT = str(Path(__file__).parents[1])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)

from tools.apache_kafka import Java  # noqa: E402
from tools.kafka_jars import JarsUnavailable  # noqa: E402

from .needs import lacking, required  # noqa: E402

pytest_plugins = [
    "tests.tiers",
    "tests.scheduling",
    "tests.last_users",
    "tests.drawn",
    "tests.rotation",
    "tests.hanging",
    "tests.registries",
]

_SAID = "said"

# A slow machine is no bug: nothing in these tests is judged by the clock.
hypothesis.settings.register_profile(
    "ottla", deadline=None, print_blob=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("ottla")


def pytest_configure() -> None:
    """A misspelt OTTLA_REQUIRE requires nothing; and Ctrl+C reaches the programs that tests start.

    A shell has what it starts in the background ignore Ctrl+C, and so would whatever that starts.
    """
    required()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def say(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Tell the reader of a run something, whatever comes of the test: which seeds it drew, say."""
    return partial(record_property, _SAID)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests said, also those that other processes ran, whose own output nobody sees; and why what failed did."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "call":
                for key, line in report.user_properties:
                    if key == _SAID:
                        terminalreporter.write_line(line)
    # All of it in one place: the reports themselves lie thousands of lines apart.
    for report in (*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")):
        crash = getattr(report.longrepr, "reprcrash", None)
        terminalreporter.write_line(f"why {report.nodeid} failed: {report.longrepr if crash is None else crash}")


@pytest.fixture
def kafka_name(request: pytest.FixtureRequest) -> str:
    """A name for topics, groups and transactional ids of the test's own; nothing is made."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in request.node.name)


@pytest.fixture(scope="session")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    """Certificates for servers and clients."""
    from .papers import Papers

    return Papers(tmp_path_factory.mktemp("papers"))


@pytest.fixture(scope="session")
def java() -> Java:
    """Kafka's own tools."""
    try:
        return Java()
    except JarsUnavailable as missing:
        lacking("kafka", missing)
