"""Partitions that cannot be read now: an export is refused, a search and a sum say what they lack."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

import ottla
from ottla.cli import main
from ottla.client.offset_lookup import OffsetLookup
from ottla.console import group_views
from ottla.console.console import Console
from ottla.console.record_views import unread_told
from ottla.console.server import ConsoleServer

from .conftest import Asking
from .looking import Looked

RECORDS = 30


@pytest.fixture(scope="module")
def halved() -> Iterator[tuple[ottla.Cluster, Asking, int]]:
    """A cluster with a topic of three partitions, of which one has no leader, and which one that is.

    The group `reads` has committed offset 4 of each partition, `half` of the leaderless one alone.
    """
    # With the default session timeout of brokers: on a busy machine a shorter one expires, and more partitions lack a
    # leader. Advancing the clock expires the session of the broker that is killed.
    clock = ottla.Clock()
    with (
        ottla.Cluster(3, clock=clock) as cluster,
        Console(cluster.bootstrap_servers) as console,
        ConsoleServer(console, "127.0.0.1", 0) as server,
    ):
        cluster.create_topic("halved", partitions=3, replication_factor=1)
        with ottla.Producer(cluster.bootstrap_servers) as producer:
            for number in range(RECORDS):
                producer.send("halved", f"n{number}".encode(), partition=number % 3)
        lookup = OffsetLookup(cluster.bootstrap_servers)
        lookup.commit("reads", {("halved", each): 4 for each in range(3)}, 30_000)
        coordinators = {cluster.coordinator(group=name) for name in ("reads", "half")}
        gone = next(each for each in range(3) if cluster.leader("halved", each) not in coordinators)
        lookup.commit("half", {("halved", gone): 4}, 30_000)
        lookup.close()
        cluster.kill(cluster.leader("halved", gone))
        clock.advance(10)
        asking = Asking(server.url)
        while all(each["leader"] is not None for each in asking.get("api/topics/halved")["partitions"]):
            pass
        yield cluster, asking, gone


def test_an_export_that_would_lack_a_partition_is_refused(halved: tuple[ottla.Cluster, Asking, int]) -> None:
    _, asking, gone = halved
    status, headers, content = asking.raw("GET", "api/topics/halved/export")
    assert (status, headers["content-disposition"]) == (409, None)
    assert f"partition {gone} of halved has no leader; the other" in json.loads(content)["error"]
    status, _, content = asking.raw("GET", f"api/topics/halved/export?partition={gone}")
    assert (status, b"try again later" in content) == (409, True)
    for partition in {0, 1, 2} - {gone}:
        assert len(asking.lines(f"api/topics/halved/export?partition={partition}")) == RECORDS / 3


def test_a_search_says_which_partition_it_lacks_and_can_go_on_in_it(halved: tuple[ottla.Cluster, Asking, int]) -> None:
    _, asking, gone = halved
    lines = asking.lines("api/topics/halved/search?value=n")
    assert lines[0] == {"error": f"partition {gone} of halved has no leader: not searched"}
    assert len([line for line in lines if "match" in line]) == RECORDS * 2 / 3
    end = lines[-1]["end"]
    assert (end["is_done"], end["unsearched"], end["offsets"]) == (False, [gone], RECORDS * 2 / 3)
    assert end["cursor"][str(gone)] == 0
    cursor = ",".join(f"{each}:{offset}" for each, offset in end["cursor"].items())
    first, *_, last = asking.lines(f"api/topics/halved/search?value=n&cursor={cursor}")
    assert (first, last["end"]["cursor"]) == (lines[0], end["cursor"])
    of_others = asking.lines(f"api/topics/halved/search?value=n&partition={(gone + 1) % 3}")[-1]["end"]
    assert (of_others["is_done"], of_others["unsearched"]) == (True, [])


def test_a_page_says_how_many_partitions_it_lacks(halved: tuple[ottla.Cluster, Asking, int]) -> None:
    _, asking, gone = halved
    page = asking.get("api/topics/halved/records")
    assert (page["leaderless"], page["errors"], len(page["records"])) == (1, [], RECORDS * 2 / 3)
    page = asking.get(f"api/topics/halved/records?partition={gone}")
    assert (page["leaderless"], page["errors"], page["records"]) == (1, [], [])


def test_a_lag_says_how_many_partitions_it_lacks(
    halved: tuple[ottla.Cluster, Asking, int], capfd: pytest.CaptureFixture[str]
) -> None:
    cluster, asking, gone = halved
    rows = {each["id"]: each for each in asking.get("api/groups")["groups"]}
    assert (rows["reads"]["lag"], rows["reads"]["lag_unknown"]) == (12, 1)
    assert (rows["half"]["lag"], rows["half"]["lag_unknown"]) == (None, 1)
    [topic] = asking.get("api/group?id=reads")["topics"]
    assert (topic["lag"], topic["lag_unknown"]) == (12, 1)
    assert [each["lag"] for each in topic["partitions"]] == [None if each == gone else 6 for each in range(3)]
    assert main(["groups", "-b", cluster.bootstrap_servers]) == 0
    assert "at least 12" in capfd.readouterr().out
    assert main(["groups", "reads", "-b", cluster.bootstrap_servers]) == 0
    lines = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert ["halved", str(gone), "4", "-", "-"] in lines


@pytest.mark.prove
def test_the_page_shows_what_cannot_be_read(halved: tuple[ottla.Cluster, Asking, int], chromium: Any) -> None:
    _, asking, gone = halved
    with chromium.new_context(viewport={"width": 1280, "height": 900}) as context:
        looked = Looked(context.new_page(), asking.url)
        page = looked.go("groups")
        page.get_by_role("row").filter(has_text="reads").get_by_text("at least 12").wait_for()
        page.get_by_role("link", name="reads").click()
        page.get_by_role("heading", name="halved: lag at least 12, not known of 1 partition").wait_for()
        row = page.get_by_role("table", name="Lag of reads in halved").get_by_role("row").nth(gone + 1)
        assert row.get_by_role("cell").all_inner_texts()[:3] == ["4", "-", "-"]
        page = looked.go("topic/halved")
        page.get_by_text("1 partition without a leader cannot be read").wait_for()
        page.locator("summary:text-is('Search')").click()
        page.get_by_label("Value contains").fill("n")
        page.get_by_label("Value contains").press("Enter")
        page.get_by_text(f"Ended, and not all was searched in partition {gone}: 20 matches").wait_for()
        page.get_by_text(f"partition {gone} of halved has no leader: not searched").wait_for()
        page.get_by_role("button", name="Search on").wait_for()
        assert looked.said == []


@pytest.mark.parametrize(
    ("unread", "told"),
    [
        ({0: None}, "partition 0 of t has no leader"),
        ({0: None, 3: None}, "partitions 0 and 3 of t have no leader"),
        ({1: 7, 2: 7}, "broker 7, which leads partitions 1 and 2 of t, did not tell the offsets there"),
        (
            dict.fromkeys(range(30)),
            f"partitions {', '.join(map(str, range(20)))} and 10 more of t have no leader",
        ),
    ],
)
def test_partitions_that_cannot_be_read_are_named_in_a_sentence(unread: dict[int, int | None], told: str) -> None:
    assert unread_told("t", unread) == told


def test_a_partition_with_nothing_committed_is_counted_while_the_group_has_members(
    asking: Asking, cluster: ottla.Cluster, kafka_name: str
) -> None:
    cluster.create_topic(kafka_name, partitions=3)
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for partition in (0, 1):
            producer.send(kafka_name, b"x", partition=partition)
    settings = {"group.id": kafka_name, "enable.auto.commit": False}
    reading = Consumer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
    reading.subscribe([kafka_name])

    def listed() -> dict[str, Any]:
        found: list[dict[str, Any]] = asking.get("api/groups")["groups"]
        return next(each for each in found if each["id"] == kafka_name)

    try:
        while not reading.assignment():
            reading.poll(0.1)
        reading.commit(offsets=[TopicPartition(kafka_name, 0, 0)], asynchronous=False)
        # Of partition 1 nothing is committed; partition 2 has no record that could be read.
        assert (listed()["lag"], listed()["lag_unknown"]) == (1, 1)
        [topic] = asking.get(f"api/group?id={kafka_name}")["topics"]
        assert (topic["lag"], topic["lag_unknown"]) == (1, 1)
        assert [each["lag"] for each in topic["partitions"]] == [1, None, 0]
    finally:
        reading.close()
    assert (listed()["lag"], listed()["lag_unknown"]) == (1, 0)


def test_a_list_of_many_groups_says_that_it_has_no_lags(
    asking: Asking, cluster: ottla.Cluster, kafka_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic(kafka_name)
    lookup = OffsetLookup(cluster.bootstrap_servers)
    lookup.commit(kafka_name, {(kafka_name, 0): 0}, 30_000)
    lookup.close()
    assert asking.get("api/groups")["lags_untold"] is None
    monkeypatch.setattr(group_views, "_LAGS_MAX", 0)
    told = asking.get("api/groups")
    assert "with more than 0 groups the list has no lags" in told["lags_untold"]
    assert all(each["lag"] is None for each in told["groups"])
