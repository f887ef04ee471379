"""The page as Chromium shows it: every view by clicks, light and dark, by keyboard alone, from 320 pixels on."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer

import ottla
from ottla.client.offset_lookup import OffsetLookup
from ottla.console.console import Console
from ottla.console.server import ConsoleServer
from ottla.remote.client import RemoteCluster

from .conftest import Asking
from .looking import HOSTILE, Looked, choose

VIEWS = {
    "Topics": "Topics",
    "Brokers": "Brokers",
    "Groups": "Groups",
    "Transactions": "Transactions",
    "Served cluster": "Served cluster",
}
PARTS = ("Records", "Partitions", "Producers", "Settings", "Logs")
WIDTHS = (320, 768, 1440)
_PATIENCE_S = 30


@pytest.fixture
def members(cluster: ottla.Cluster, orders: str) -> Iterator[str]:
    """A group that reads `orders` with a member, and has committed offsets."""
    group = "members"
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    reading = Consumer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
    reading.subscribe([orders])
    try:
        give_up = time.monotonic() + _PATIENCE_S
        while (message := reading.poll(0.2)) is None or message.error() is not None:
            assert time.monotonic() < give_up
        reading.commit(asynchronous=False)
        yield group
    finally:
        reading.close()


def test_a_record_is_found_and_read_by_keyboard_alone_and_is_never_html(opened: Looked) -> None:
    page = opened.go("brokers")
    keys = page.keyboard

    def until(name: str, *, limit: int = 40) -> None:
        for _ in range(limit):
            keys.press("Tab")
            focused = page.evaluate(
                "(document.activeElement.getAttribute('aria-label') || document.activeElement.textContent).trim()"
            )
            if focused == name:
                return
        pytest.fail(f"{name} is not reached by Tab")

    until("Topics")
    keys.press("Enter")
    page.wait_for_selector("h1:has-text('Topics')")
    page.wait_for_selector("a:text-is('orders')")
    until("orders")
    keys.press("Enter")
    page.wait_for_selector("button[aria-label^='Record at offset']")
    until("Record at offset 30 of partition 0", limit=80)
    keys.press("Enter")
    dialog = page.locator("dialog")
    dialog.get_by_text("Its batch").wait_for()
    assert HOSTILE in dialog.inner_text()
    assert page.locator("img, main script, dialog script").count() == 0
    keys.press("Escape")
    dialog.wait_for(state="detached")
    focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused == "Record at offset 30 of partition 0"


@pytest.mark.prove
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_can_be_used_at_every_width(
    chromium: Any, server: ConsoleServer, members: str, scheme: str, width: int
) -> None:
    with chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme) as context:
        looked = Looked(context.new_page(), server.url)
        page = looked.go("topics")

        def check(where: str) -> None:
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), where
            assert looked.serious() == [], where

        for link, heading in VIEWS.items():
            page.locator("#nav").get_by_text(link, exact=True).click()
            page.wait_for_selector(f"main h1:text-is('{heading}')")
            check(link)
        page.locator("#nav").get_by_text("Brokers", exact=True).click()
        page.get_by_role("button", name="Settings of broker 1").click()
        page.get_by_role("region", name="Settings of broker 1").locator("tbody tr").first.wait_for()
        check("settings of a broker")
        page.locator("#nav").get_by_text("Groups", exact=True).click()
        page.locator(f"a:text-is('{members}')").click()
        page.get_by_role("region", name=f"Members of {members}").locator("tbody th").first.wait_for()
        page.get_by_role("region", name=f"Lag of {members} in orders").locator("tbody tr").first.wait_for()
        check("a group")
        page.locator("#nav").get_by_text("Topics", exact=True).click()
        page.locator("a:text-is('orders')").click()
        for part in PARTS:
            page.get_by_label("Parts of the topic").get_by_text(part, exact=True).click()
            page.wait_for_selector(f"nav a[aria-current]:text-is('{part}')")
            page.wait_for_selector("main table tbody tr, main .card, main .log")
            check(part)
        page.get_by_label("Parts of the topic").get_by_text("Records", exact=True).click()
        for summary in ("Search", "Send"):
            page.locator(f"summary:text-is('{summary}')").click()
        page.locator("button[aria-label^='Record at offset']").first.click()
        page.locator("dialog").get_by_text("Its batch").wait_for()
        check("dialog")
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (max(int(each) for each in paper[4:-1].split(", ")) < 64) == (scheme == "dark")
        assert looked.said == []


@pytest.mark.prove
def test_a_search_shows_what_it_finds(opened: Looked) -> None:
    page = opened.go("topic/orders")
    page.locator("summary:text-is('Search')").click()
    page.get_by_label("JSON path in the value").fill("$.customer.name")
    page.get_by_label("with", exact=True).fill("c4")
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_text("Done: 10 matches in 93 records").wait_for()
    found = page.get_by_role("region", name="Records found")
    assert found.locator("tbody tr").count() == 10
    page.get_by_label("Value contains").fill("onerror")
    page.get_by_label("JSON path in the value").fill("")
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_text("Done: 1 match in").wait_for()
    assert HOSTILE in found.inner_text()
    page.get_by_label("JSON path in the value").fill("$[")
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_text("is not understood").wait_for()
    # The page answers with a status of its own, which Chromium writes down as an error.
    opened.said[:] = [each for each in opened.said if "400" not in each]


@pytest.mark.prove
def test_records_are_turned_over_by_pages_and_places(opened: Looked) -> None:
    page = opened.go("topic/orders")
    rows = page.get_by_role("region", name="Records of orders").locator("tbody tr")
    choose(page, "Partition", "1")
    choose(page, "From", "offset")
    page.get_by_label("Offset", exact=True).fill("28")
    page.get_by_role("button", name="Read", exact=True).click()
    page.get_by_text("3 records of 31 offsets").wait_for()
    assert "00 ff fe" in rows.nth(2).inner_text()
    page.get_by_role("button", name="Older").click()
    page.get_by_text("28 records of 31 offsets").wait_for()
    assert rows.first.locator("th").inner_text() == "27"


@pytest.mark.prove
def test_records_are_sent_exported_and_imported(opened: Looked, asking: Asking, tmp_path: Path) -> None:
    asking.change("POST", "api/topics", {"name": "typed"})
    page = opened.go("topic/typed")
    page.get_by_text("0 records of 0 offsets").wait_for()
    page.locator("summary:text-is('Send')").click()
    page.get_by_label("Key", exact=True).fill("ada")
    page.get_by_label("Value", exact=True).fill('{"typed": true}')
    page.get_by_label("Headers", exact=True).fill("source=page; other=1")
    page.get_by_role("button", name="Send the record").click()
    page.get_by_text("Stored in partition 0 at offset 0.").wait_for()
    page.get_by_text("1 record of 1 offset").wait_for()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Export", exact=True).click()
    exported = tmp_path / "typed.ndjson"
    waiting.value.save_as(exported)
    assert json.loads(exported.read_text())["headers"] == [["source", "page"], ["other", "1"]]
    page.get_by_label("A file with one JSON object a line").set_input_files(exported)
    page.get_by_role("button", name="Import").click()
    page.get_by_text("1 record stored.").wait_for()
    page.get_by_text("2 records of 2 offsets").wait_for()


@pytest.mark.prove
def test_a_topic_is_made_looked_for_and_deleted(opened: Looked) -> None:
    page = opened.go("topics")
    page.locator("summary:text-is('Create a topic')").click()
    page.get_by_label("Name", exact=True).fill("mayfly")
    page.get_by_label("Partitions", exact=True).fill("2")
    page.get_by_role("button", name="Create", exact=True).click()
    page.get_by_text("Topic mayfly is there.").wait_for()
    page.get_by_label("Name contains").fill("MAYFLY")
    page.get_by_text("1 topic, 2 partitions").wait_for()
    page.locator("a:text-is('mayfly')").click()
    page.get_by_label("Parts of the topic").get_by_text("Partitions").click()
    page.locator("summary:text-is('Delete this topic')").click()
    button = page.get_by_role("button", name="Delete the topic")
    assert button.is_disabled()
    page.get_by_label("Type its name").fill("mayfly")
    button.click()
    page.wait_for_selector("main h1:text-is('Topics')")
    page.get_by_label("Name contains").fill("mayfly")
    page.get_by_text("0 topics").wait_for()


@pytest.mark.prove
def test_a_topic_that_is_deleted_while_it_is_looked_at_is_said_to_be_gone(opened: Looked, asking: Asking) -> None:
    asking.change("POST", "api/topics", {"name": "vanishing"})
    page = opened.go("topic/vanishing/partitions")
    page.wait_for_selector("tbody tr")
    asking.change("DELETE", "api/topics/vanishing")
    page.get_by_text("there is no such topic (any more)").wait_for()
    opened.said[:] = [each for each in opened.said if "404" not in each]


@pytest.mark.prove
def test_an_address_that_was_typed_wrongly_shows_something(opened: Looked) -> None:
    opened.go("brokers")
    for address, heading in (
        ("topic/%E0%A4%A", "It cannot be shown"),
        ("group/%", "It cannot be shown"),
        ("topic/", "Topics"),
        ("nothing", "Topics"),
        ("topic/orders/nothing", "orders"),
    ):
        opened.go(address).wait_for_selector(f"main h1:text-is('{heading}'), main .error")
    opened.page.goto(f"{opened.url}#token=%zz")
    opened.page.wait_for_selector("a:text-is('orders')")
    opened.said[:] = [each for each in opened.said if "status of 40" not in each]


@pytest.mark.prove
def test_json_is_shown_on_lines_and_nothing_of_it_is_changed(opened: Looked, cluster: ottla.Cluster) -> None:
    cluster.create_topic("spelled")
    written = [
        '{"a":1e999,"a":[1.0,{}, []],"big":12345678901234567890,"s":"x\\"{[,:","n":null}',
        "[" * 20_000 + "]" * 20_000,
        '{"not json"',
    ]
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for text in written:
            producer.send("spelled", text.encode())
    page = opened.go("topic/spelled")
    shown = []
    for offset in range(3):
        page.get_by_role("button", name=f"Record at offset {offset} of partition 0").click()
        shown.append(page.locator("dialog pre").inner_text())
        page.keyboard.press("Escape")
        page.locator("dialog").wait_for(state="detached")
    assert shown[0].splitlines() == [
        "{",
        '  "a": 1e999,',
        '  "a": [',
        "    1.0,",
        "    {},",
        "    []",
        "  ],",
        '  "big": 12345678901234567890,',
        '  "s": "x\\"{[,:",',
        '  "n": null',
        "}",
    ]
    assert shown[1:] == written[1:]


@pytest.mark.prove
def test_the_longest_names_fit_320_pixels(chromium: Any, server: ConsoleServer, cluster: ottla.Cluster) -> None:
    name = "n" * 249
    cluster.create_topic(name)
    with ottla.Producer(cluster.bootstrap_servers, client_id="c" * 249, transactional_id="i" * 249) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(name, b"v" * 5000, b"k" * 5000, headers=[("h" * 500, b"v" * 500)])
        with chromium.new_context(viewport={"width": 320, "height": 700}) as context:
            looked = Looked(context.new_page(), server.url)
            views = "topics", "transactions", "served", *(f"topic/{name}/{part.lower()}" for part in PARTS)
            for view in views:
                page = looked.go(view)
                page.wait_for_selector("main tbody tr, main .card h3")
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
            page = looked.go(f"topic/{name}")
            page.locator("button[aria-label^='Record at offset']").first.click()
            page.locator("dialog").get_by_text("Its batch").wait_for()
            assert page.evaluate("(d => d.scrollWidth <= d.clientWidth)(document.querySelector('dialog'))")


@pytest.mark.prove
def test_no_name_is_ever_html(opened: Looked, cluster: ottla.Cluster) -> None:
    lookup = OffsetLookup(cluster.bootstrap_servers)
    lookup.commit(HOSTILE, {("orders", 0): 2}, 30_000)
    lookup.close()
    with ottla.Producer(cluster.bootstrap_servers, transactional_id=HOSTILE, client_id=HOSTILE) as producer:
        producer.init_transactions()
    page = opened.go("groups")
    page.get_by_role("link", name=HOSTILE).click()
    page.wait_for_selector("main h1:has-text('onerror')")
    page.get_by_text("orders").first.wait_for()
    opened.go("transactions").get_by_text(HOSTILE).first.wait_for()
    # Sentences that say what was asked for.
    for view in (f"group/{quote(HOSTILE + HOSTILE, safe='')}", f"topic/{quote(HOSTILE, safe='')}"):
        error = opened.go(view).locator(".error")
        error.wait_for()
        assert "onerror" in error.inner_text()
        assert page.locator("main img, main script").count() == 0
    opened.said[:] = [each for each in opened.said if "404" not in each]


@pytest.mark.prove
def test_an_open_transaction_is_ended_by_its_button(opened: Looked, cluster: ottla.Cluster) -> None:
    cluster.create_topic("ended-by-its-button")
    with ottla.Producer(cluster.bootstrap_servers, transactional_id="left-open") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("ended-by-its-button", b"left open")
        producer.flush()
        page = opened.go("transactions")
        page.on("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="End the transaction of left-open").click()
        page.get_by_text('The producer of "left-open" is fenced.').wait_for()
        row = page.get_by_role("row", name="left-open")
        row.get_by_text("Empty").wait_for()
        with pytest.raises(ottla.OttlaError):
            producer.commit_transaction()


@pytest.mark.prove
def test_brokers_are_killed_and_started_and_faults_put_in_force_and_healed(
    opened: Looked, cluster: ottla.Cluster
) -> None:
    cluster.create_topic("struck")
    page = opened.go("served")
    page.get_by_role("button", name="kill broker 3").click()
    page.get_by_role("button", name="start broker 3").wait_for()
    assert cluster.brokers()[3] == "down"
    page.get_by_role("button", name="start broker 3").click()
    page.get_by_role("button", name="pause broker 3").wait_for()
    cluster.await_isr("struck", 0, 3)
    choose(page, "Fault", "lose_ack")
    # Names stand in type of their own, not between backticks.
    assert "`" not in page.locator("form", has_text="Add a fault").inner_text()
    page.get_by_label("topic", exact=True).fill("struck")
    page.get_by_label("nth", exact=True).fill("1")
    page.get_by_role("button", name="Add the fault").click()
    page.get_by_text("fired 0").wait_for()
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        producer.send("struck", b"told twice").result(30)
    page.get_by_text("fired 1").wait_for()
    page.get_by_role("button", name="Heal fault").click()
    page.get_by_text("No fault is in force.").wait_for()
    page.get_by_label("nth", exact=True).fill("never")
    page.get_by_role("button", name="Add the fault").click()
    page.locator("#state").get_by_text("nth").wait_for()
    opened.said[:] = [each for each in opened.said if "400" not in each]


@pytest.mark.prove
def test_who_is_connected_and_what_limits_a_producer_is_shown(opened: Looked, cluster: ottla.Cluster) -> None:
    cluster.create_topic("limited", partitions=6)
    page = opened.go("served")
    choose(page, "Clients push their metrics", "1000")
    page.get_by_role("button", name="Apply").click()
    page.get_by_text("Clients that connect from now on push their metrics.").wait_for()
    is_over = threading.Event()

    def send(producer: ottla.Producer) -> None:
        while not is_over.is_set():
            producer.send("limited", bytes(1000))

    with ottla.Producer(
        cluster.bootstrap_servers, client_id=HOSTILE, buffer_memory=1 << 17, compression_type="none"
    ) as producer:
        sending = threading.Thread(target=send, args=(producer,))
        sending.start()
        try:
            connections = page.get_by_role("region", name="Connections")
            connections.get_by_text(HOSTILE).first.wait_for()
            card = page.locator(f"main section.card[data-client*='{producer.client_instance_id(30)}']")
            card.get_by_text("buffer.memory is small").first.wait_for(timeout=60_000)
            assert HOSTILE in card.inner_text()
            assert "batch.size=16384, linger.ms=5 and Kafka's other defaults are assumed" in card.inner_text()
            card.locator("summary").click()
            card.get_by_text("org.apache.kafka.producer.record.send.total").wait_for()
            assert opened.serious() == []
            with cluster.faults.hold(topic="limited", api="Produce") as held:
                held.await_fired(1)
                producers = page.get_by_role("region", name="Producers", exact=True)
                sent = producers.get_by_role("row").filter(has_text="limited-0").first
                sent.wait_for()
                assert HOSTILE in sent.inner_text()
                assert re.search(r"\d+ to \d+ at \d+", sent.inner_text())
                row = (
                    connections.get_by_role("row")
                    .filter(has=page.get_by_role("cell", name="Produce", exact=True))
                    .first
                )
                row.wait_for()
                assert row.locator("td").nth(1).inner_text() != "0"
        finally:
            is_over.set()
            sending.join()
    card.get_by_text("has ended").wait_for()
    choose(page, "Clients push their metrics", "0")
    page.get_by_role("button", name="Apply").click()
    page.get_by_text("Clients are not asked for metrics here.").wait_for()


@pytest.mark.prove
def test_the_logs_follow_what_is_written(opened: Looked, cluster: ottla.Cluster) -> None:
    cluster.create_topic("followed")
    page = opened.go("topic/followed/logs")
    page.get_by_text("end 0; synced 0; high watermark 0").first.wait_for()
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for number in range(3):
            producer.send("followed", f"{number}".encode()).result(30)
    page.get_by_text("high watermark 3").first.wait_for()
    page.locator(".window li:text-is('2 at 2')").wait_for()
    assert page.locator(".window li").all_inner_texts() == ["0 at 0", "1 at 1", "2 at 2"]


@pytest.mark.prove
def test_the_logs_say_how_much_of_a_topic_they_do_not_show(opened: Looked, cluster: ottla.Cluster) -> None:
    cluster.create_topic("wide", partitions=14)
    for _ in range(7):
        with ottla.Producer(cluster.bootstrap_servers) as producer:
            producer.send("wide", b"value", partition=0).result(30)
    page = opened.go("topic/wide/logs")
    page.get_by_text("2 more partitions not shown here.").wait_for()
    page.get_by_text("2 more producers of this partition not shown here.").wait_for()
    assert page.locator(".card").count() == 12
    assert page.locator(".window").count() == 5


@pytest.mark.prove
def test_the_page_asks_for_the_token_and_read_only_offers_nothing_to_change(
    chromium: Any, looked_at: Console, orders: str
) -> None:
    token = "a-token-of-16-and-more"
    with (
        ConsoleServer(looked_at, "127.0.0.1", 0, token=token, read_only=True) as server,
        chromium.new_context() as context,
    ):
        looked = Looked(context.new_page(), server.url)
        page = looked.go("topics")
        page.get_by_label("Token").fill("not-the-right-token")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
                assert looked.serious() == [], (scheme, width)
        page.get_by_role("button", name="Open").click()
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Open").click()
        page.wait_for_selector("a:text-is('orders')")
        assert page.locator("summary:text-is('Create a topic')").count() == 0
        for view, button in (("served", "kill broker 1"), ("topic/orders", "Send the record")):
            page = looked.go(view)
            page.wait_for_selector("main .card, main tbody tr")
            assert page.get_by_role("button", name=button).count() == 0
        with page.expect_download() as waiting:
            page.get_by_role("button", name="Export", exact=True).click()
        assert HOSTILE in Path(waiting.value.path()).read_text()
        page.goto(f"{server.url}#token={token}")
        page.wait_for_selector("a:text-is('orders')")
        assert token not in page.url


@pytest.mark.prove
def test_what_cannot_be_reached_is_said_and_tried_again(chromium: Any) -> None:
    with (
        Console(
            "127.0.0.1:1", reading={"default_api_timeout_ms": 300}, control=RemoteCluster("127.0.0.1", 1)
        ) as console,
        ConsoleServer(console, "127.0.0.1", 0) as server,
        chromium.new_context() as context,
    ):
        page = Looked(context.new_page(), server.url).go("topics")
        page.get_by_text("127.0.0.1:1", exact=False).first.wait_for()
        page.get_by_role("button", name="Try again").click()
        page.locator(".error").wait_for()
        page.locator("#nav").get_by_text("Served cluster").click()
        page.wait_for_selector("#nav a[aria-current]:text-is('Served cluster')")
        page.locator(".error").wait_for()


@pytest.mark.prove
def test_a_thousand_topics_and_ten_thousand_partitions_can_be_used(chromium: Any) -> None:
    settings = {"num.partitions": 10}
    with ottla.Cluster(1, settings=settings) as cluster, ottla.Admin(cluster.bootstrap_servers) as admin:
        admin.create_topics({f"topic-{number:04}": 9 for number in range(999)})
        admin.create_topics("wide", partitions=1009)
        with (
            Console(cluster.bootstrap_servers) as console,
            ConsoleServer(console, "127.0.0.1", 0) as server,
            chromium.new_context(viewport={"width": 1280, "height": 800}) as context,
        ):
            looked = Looked(context.new_page(), server.url)
            page = looked.go("topics")
            page.get_by_text("1,000 topics, 10,000 partitions").wait_for()
            assert page.locator("tbody tr").count() < 100
            frame = page.get_by_role("region", name="Topics")
            frame.focus()
            page.keyboard.press("End")
            page.locator("a:text-is('wide')").click()
            page.get_by_label("Parts of the topic").get_by_text("Partitions").click()
            region = page.get_by_role("region", name="Partitions of wide")
            region.get_by_text("Log start").wait_for()
            assert region.locator("tbody tr").count() < 100
            region.focus()
            page.keyboard.press("End")
            region.get_by_role("row", name="1008").wait_for()
            assert looked.said == []
