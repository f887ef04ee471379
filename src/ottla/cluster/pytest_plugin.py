"""pytest fixtures: a Kafka cluster for a test session, a fresh topic for each test, a cluster for one test alone.

Loaded by pytest through the entry point `pytest11` in every project that has ottla installed, so nothing but pytest
itself is imported before a test asks for a fixture, unless settings are given: these are checked at the start.

How many brokers and with which settings: `--kafka-brokers` and `--kafka-setting` on the command line, `kafka_brokers`
and `kafka_settings` (one NAME=VALUE a line) in pytest's configuration; the command line comes first. With pytest-xdist
every worker has a cluster of its own. A project that needs more defines a fixture `kafka_cluster` itself.

What a test breaks in `kafka_cluster` does not affect the next one: after each test faults are healed, paused brokers
are resumed, and brokers that are down are started. If a test has closed the cluster, or its process has ended, a new
one takes its place, and a warning names the test.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ottla.cluster.cluster import Cluster

# By name: `cluster` must not import `embedded_registry`.
pytest_plugins = ("ottla.embedded_registry.pytest_plugin",)

# A topic that exists for a moment, until all brokers run again.
_MENDED = "kafka-cluster-is-mended"
_PATIENCE_S = 30.0
# As many as a cluster may have.
_BROKERS_MAX = 100


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for the size and the settings of a test session's cluster."""
    group = parser.getgroup("kafka", "the embedded Kafka cluster of the fixture kafka_cluster")
    group.addoption("--kafka-brokers", type=int, metavar="COUNT", help="How many brokers (3).")
    group.addoption(
        "--kafka-setting",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="A broker setting by Kafka's name, such as log.segment.bytes=1048576 (again for more).",
    )
    parser.addini("kafka_brokers", "How many brokers the cluster of kafka_cluster has.", default="3")
    parser.addini("kafka_settings", "Broker settings of kafka_cluster, one NAME=VALUE a line.", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse what no cluster could be made with, once, and not for each test that asks for one."""
    _brokers(config)
    given = _given_settings(config)
    if given:
        from ottla.broker.settings import BrokerSettings
        from ottla.errors import ConfigError

        try:
            BrokerSettings(**given)
        except ConfigError as error:
            raise pytest.UsageError(f"the settings of kafka_cluster: {error}") from None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, object, object]:
    """Leave our frames out of tracebacks if they do not help the user; `--full-trace` shows all.

    An error of ours is one sentence for the user, so the last frame shown is the test's own line. Frames of compiled
    modules would always be shown as `???`: they name the path that the source had where it was built, and there is no
    such file here.
    """
    if call.excinfo is not None:
        _hide_frames(call.excinfo.value, set())
    return (yield)


def _hide_frames(error: BaseException | None, seen: set[int]) -> None:
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        trace = error.__traceback__
        while trace is not None:
            frame = trace.tb_frame
            if _is_ours(frame.f_globals):
                # pytest looks for this variable in a frame. A compiled frame has no local variables, so it is global.
                is_compiled = not os.path.exists(frame.f_code.co_filename)
                frame.f_globals["__tracebackhide__"] = True if is_compiled else _is_told
            trace = trace.tb_next
        for inner in getattr(error, "exceptions", ()):
            _hide_frames(inner, seen)
        _hide_frames(error.__context__, seen)
        error = error.__cause__


def _is_told(excinfo: pytest.ExceptionInfo[BaseException]) -> bool:
    from ottla.errors import OttlaError

    return isinstance(excinfo.value, OttlaError)


def _is_ours(variables: dict[str, object]) -> bool:
    # Frames of this module's fixtures are shown: they say which fixture failed.
    name = str(variables.get("__name__"))
    return name.startswith("ottla.") and name != __name__


@pytest.fixture(scope="session")
def kafka_cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A cluster in a process of its own, shared by all tests of the session; three brokers by default.

    log.retention.ms is -1 by default: tests often have old timestamps, and such records must not be deleted.
    """
    with _make_cluster(pytestconfig, "kafka_cluster") as cluster:
        yield cluster


@pytest.fixture
def own_kafka_cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A cluster like `kafka_cluster` for one test alone, for example a test that loses data."""
    with _make_cluster(pytestconfig, "own_kafka_cluster") as cluster:
        yield cluster


def _make_cluster(config: pytest.Config, fixture: str) -> Cluster:
    from ottla.cluster.cluster import Cluster
    from ottla.errors import ConfigError

    try:
        return Cluster(brokers=_brokers(config), settings=_settings(config))
    except ConfigError as error:
        wrong = str(error)
    # Raised as it is, pytest would show it after source lines of this plugin; while it is handled, it would show both.
    pytest.fail(f"{fixture}: {wrong}", pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
    """Note every fixture `kafka_cluster`: ours, and one of the project, which may stand on ours."""
    if fixturedef.argname == "kafka_cluster":
        request.session.stash.setdefault(_CLUSTERS, {})[fixturedef] = request


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Repair the shared cluster after a test and its fixtures, or have the next test make another one.

    It is done after every test: one that uses `request.getfixturevalue` does not have the cluster in its arguments.
    """
    try:
        return (yield)
    finally:
        for fixturedef, request in item.session.stash.get(_CLUSTERS, {}).items():
            # None once the fixture itself is over: then it was the fixture that closed the cluster, as it should.
            made = fixturedef.cached_result
            if made is not None:
                _mend_or_forget(made[0], fixturedef, request, item)


def _mend_or_forget(cluster: Any, fixturedef: Any, request: pytest.FixtureRequest, item: pytest.Item) -> None:
    from ottla.errors import ClosedError, ForkError, OttlaError

    try:
        _mend(cluster)
    except ForkError:
        # The test ran in a fork (pytest-forked): the cluster belongs to the process that made it.
        return
    except OttlaError as error:
        if cluster.is_running:
            raise
        what = "it was closed" if isinstance(error, ClosedError) else str(error).rstrip(".")
        try:
            # Ends the fixtures that use it as well: they know the addresses of this cluster.
            fixturedef.finish(request)
        finally:
            # A line in pytest's summary; pytest-xdist hands it on.
            item.warn(
                pytest.PytestWarning(
                    f"kafka_cluster did not outlive {item.nodeid}: {what}. The next test gets a new one. "
                    "A test that ends its cluster should use own_kafka_cluster."
                )
            )


def _mend(cluster: Any) -> None:
    from ottla.cluster.cluster import Cluster

    # A project may have another fixture of this name.
    if not isinstance(cluster, Cluster):
        return
    healed = cluster.faults.heal()
    states = cluster.brokers()
    for broker_id, state in states.items():
        if state == "paused":
            cluster.resume(broker_id)
    if "down" in states.values():
        cluster.start()
    if healed or {*states.values()} != {"running"}:
        _await_brokers(cluster, len(states))


def _await_brokers(cluster: Cluster, count: int) -> None:
    """Wait until all brokers can get replicas: the controller does not know at once that a broker runs again."""
    from ottla.errors import KafkaError

    give_up_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            cluster.create_topic(_MENDED, replication_factor=count)
            break
        except KafkaError:
            if time.monotonic() > give_up_s:
                raise
            time.sleep(0.01)
    cluster.await_isr(_MENDED, 0, count, timeout=_PATIENCE_S)
    cluster.delete_topic(_MENDED)


def _brokers(config: pytest.Config) -> int:
    given = config.getoption("kafka_brokers")
    where = "--kafka-brokers" if given is not None else "kafka_brokers in pytest's configuration"
    text = str(config.getini("kafka_brokers") if given is None else given)
    if not (text.isascii() and text.isdecimal() and len(text) <= 3 and 1 <= int(text) <= _BROKERS_MAX):
        raise pytest.UsageError(f"{where} is {text!r} and must be a number from 1 to {_BROKERS_MAX}")
    return int(text)


def _settings(config: pytest.Config) -> dict[str, str]:
    # Kafka's default is a week. It looks for older records every five minutes, in the middle of some test.
    return {"log.retention.ms": "-1"} | _given_settings(config)


def _given_settings(config: pytest.Config) -> dict[str, str]:
    """What the configuration says, changed by the command line."""
    settings: dict[str, str] = {}
    for texts in (config.getini("kafka_settings"), config.getoption("kafka_setting")):
        seen: dict[str, str] = {}
        for text in texts:
            given, equals, value = text.partition("=")
            if not equals:
                raise pytest.UsageError(f"kafka setting {text!r} is not NAME=VALUE, such as log.segment.bytes=1048576")
            name = given.strip().replace("_", ".")
            if name in seen:
                raise pytest.UsageError(f"kafka setting {name} is given twice ({seen[name]!r} and {text!r}): keep one")
            seen[name] = text
            settings[name] = value.strip()
    return settings


@pytest.fixture
def kafka_topic(kafka_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of an empty topic with three partitions for this test alone; deleted after the test."""
    count = request.session.stash.get(_TOPICS_MADE, 0)
    request.session.stash[_TOPICS_MADE] = count + 1
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in request.node.name)
    topic = f"{plain[:100]}-{count}"
    kafka_cluster.create_topic(topic, partitions=3)
    yield topic
    _delete(kafka_cluster, topic)


def _delete(cluster: Cluster, topic: str) -> None:
    from ottla.errors import KafkaError, OttlaError, UserMistake

    try:
        cluster.delete_topic(topic)
    except UserMistake:
        # The test has left no broker or no controller to delete it.
        _mend(cluster)
        cluster.delete_topic(topic)
    except KafkaError as error:
        # The test may have deleted it.
        if error.name != "UNKNOWN_TOPIC_OR_PARTITION":
            raise
    except OttlaError:
        # The test may have ended the cluster, and the topic with it.
        if cluster.is_running:
            raise


# Each fixture `kafka_cluster` that was set up, with the request it was set up for.
_CLUSTERS = pytest.StashKey[dict[pytest.FixtureDef[Any], pytest.FixtureRequest]]()
_TOPICS_MADE = pytest.StashKey[int]()
