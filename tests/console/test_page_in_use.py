"""The page while it is used: what a refresh leaves alone, what its address says, what it says of mistakes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer as ForeignProducer
from tools.ports import free_ports

import ottla
from ottla.console.console import Console
from ottla.console.server import ConsoleServer
from ottla.remote.client import RemoteCluster
from ottla.remote.server import ControlServer

from .conftest import Asking
from .looking import Looked, choose

pytestmark = pytest.mark.prove


@pytest.fixture
def timed(opened: Looked) -> Looked:
    """A page whose clock can be set ahead."""
    opened.page.clock.install()
    return opened


def stop_clock(page: Any) -> None:
    """Pause the page's clock, so that no refresh is due until it is advanced. Call it before the page is opened."""
    page.clock.pause_at(page.evaluate("Date.now()") + 3_600_000)


@pytest.fixture
def hundreds(cluster: ottla.Cluster) -> Iterator[str]:
    """A topic with more records than a search shows at once."""
    cluster.create_topic("hundreds")
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for number in range(250):
            producer.send("hundreds", json.dumps({"id": number}).encode())
    yield "hundreds"
    cluster.delete_topic("hundreds")


def send(cluster: ottla.Cluster, topic: str, count: int) -> None:
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for number in range(count):
            producer.send(topic, f"{number}".encode(), partition=0)


def cells(page: Any, topic: str) -> list[str]:
    row = page.get_by_role("region", name="Topics").locator(f"tr[data-key='{topic}']")
    return [each.strip() for each in row.locator("td").all_inner_texts()]


def test_offsets_and_sizes_of_topics_are_asked_for_again(timed: Looked, cluster: ottla.Cluster) -> None:
    cluster.create_topic("growing")
    page = timed.go("topics")
    page.locator("tr[data-key='growing'] td", has_text=re.compile(r"^0 B$")).wait_for()
    send(cluster, "growing", 7)
    page.clock.fast_forward(20_000)
    page.locator("tr[data-key='growing'] td", has_text=re.compile(r"^7$")).wait_for()


def test_a_topic_made_on_the_page_has_its_offsets_at_once(timed: Looked, cluster: ottla.Cluster) -> None:
    stop_clock(timed.page)
    page = timed.go("topics")
    page.locator("tr[data-key='orders'] td", has_text=re.compile(r"^9\d$")).first.wait_for()
    page.locator("summary:text-is('Create a topic')").click()
    page.get_by_label("Name", exact=True).fill("made-now")
    page.get_by_role("button", name="Create", exact=True).click()
    page.locator("tr[data-key='made-now'] td", has_text=re.compile(r"^0$")).wait_for()
    cluster.delete_topic("made-now")


def test_topics_with_names_of_prototypes_have_no_sizes_but_their_own(opened: Looked, cluster: ottla.Cluster) -> None:
    names = ("__proto__", "constructor", "toString")
    for name in names:
        cluster.create_topic(name)
    page = opened.page
    # Sizes are held back for as long as the test looks.
    page.route("**/api/topic-sizes", lambda route: None)
    opened.go("topics")
    for name in names:
        page.locator(f"tr[data-key='{name}']").wait_for()
        assert cells(page, name)[2:4] == ["", ""]
    for name in names:
        opened.go(name).wait_for_selector("main h1:text-is('Topics')")
        opened.go(f"topic/orders/{name}")
        page.locator("button[aria-label^='Record at offset']").first.wait_for()
        cluster.delete_topic(name)


def test_a_double_click_sends_one_record(opened: Looked, cluster: ottla.Cluster) -> None:
    cluster.create_topic("clicked")
    page = opened.go("topic/clicked")
    page.locator("summary:text-is('Send')").click()
    page.get_by_label("Value", exact=True).fill("once")
    page.get_by_role("button", name="Send the record").dblclick()
    page.get_by_text("Stored in partition 0 at offset 0.").wait_for()
    page.get_by_text("1 record of 1 offset").wait_for()
    page.get_by_role("button", name="Send the record").click()
    page.get_by_text("2 records of 2 offsets").wait_for()
    page.locator("button:text-is('Send the record'):enabled").wait_for()
    focused = page.evaluate("document.activeElement.textContent")
    assert focused == "Send the record"


def test_a_time_that_is_missing_or_wrong_is_said(opened: Looked) -> None:
    page = opened.go("topic/orders")
    choose(page, "From", "time")
    page.get_by_role("button", name="Read", exact=True).click()
    page.get_by_text("Time (UTC) is missing").wait_for()
    form = page.locator("form").first
    form.evaluate("each => { each.noValidate = true; }")
    for wrong in ("12026-01-01T00:00", "1969-12-31T23:59"):
        form.get_by_label("Time (UTC)").fill(wrong, force=True)
        page.get_by_role("button", name="Read", exact=True).click()
        page.get_by_text("Time (UTC) must be a date and a time from 1970 to 9999").wait_for()
        form.get_by_label("Time (UTC)").fill("2020-01-01T00:00")
        page.get_by_role("button", name="Read", exact=True).click()
        page.locator("main .error").wait_for(state="detached")


def test_timestamps_of_all_kinds_are_read_as_people_read_them(opened: Looked, cluster: ottla.Cluster) -> None:
    page = opened.go("topics")
    shown = page.evaluate(
        "async (given) => { const { when } = await import('./static/format.js'); return given.map(when); }",
        [None, -1, "-1", -86_400_000, 1, "1", 253_402_300_800_000, 9 * 10**15, "1700000000123456789"],
    )
    assert shown == [
        "",
        "no timestamp",
        "no timestamp",
        "1969-12-31 00:00:00.000",
        "1970-01-01 00:00:00.001",
        "1970-01-01 00:00:00.001",
        "10000-01-01 00:00:00.000",
        "9000000000000000 ms",
        "1700000000123456789 ms",
    ]


def test_the_skip_link_leads_to_the_content_of_the_same_view(opened: Looked) -> None:
    page = opened.go("topic/orders/partitions")
    page.locator("tbody tr").first.wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.url.endswith("#/topic/orders/partitions")
    assert page.locator("main h1").inner_text() == "orders"


def test_a_record_has_an_address_and_closes_when_its_view_is_left(opened: Looked) -> None:
    page = opened.go("topics")
    page.locator("a:text-is('orders')").click()
    page.get_by_role("button", name="Record at offset 30 of partition 0").click()
    page.locator("dialog").get_by_text("Its batch").wait_for()
    address = page.url
    assert address.endswith("#/topic/orders/records/0/30")
    page.go_back()
    page.wait_for_selector("main h1:text-is('Topics')")
    page.locator("dialog").wait_for(state="detached")
    assert page.url.endswith("#/topics")
    page.goto("about:blank")
    page.goto(address)
    page.locator("dialog").get_by_text("Its batch").wait_for()
    page.get_by_role("heading", name="orders-0 at offset 30").wait_for()
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    assert page.url.endswith("#/topic/orders/records")


def test_what_is_looked_at_stands_in_the_address(opened: Looked, cluster: ottla.Cluster, kafka_name: str) -> None:
    # Topics of other tests have other names, of which "ord" may be a part.
    cluster.create_topic(kafka_name, partitions=3)
    page = opened.go("topic/orders")
    choose(page, "Partition", "1")
    choose(page, "From", "offset")
    page.get_by_label("Offset", exact=True).fill("28")
    page.get_by_role("button", name="Read", exact=True).click()
    page.get_by_text("3 records of 31 offsets").wait_for()
    page.locator("summary:text-is('Search')").click()
    page.get_by_label("JSON path in the value").fill("$.customer.name")
    page.get_by_label("with", exact=True).fill("c4 & ü?#")
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_text("Done: 0 matches").wait_for()
    page.reload()
    page.get_by_text("3 records of 31 offsets").wait_for()
    assert page.get_by_label("JSON path in the value").input_value() == "$.customer.name"
    assert page.get_by_label("with", exact=True).input_value() == "c4 & ü?#"
    page.goto(f"{opened.url}#/topic/orders/records?from=time&at=2020-01-01T00:00")
    page.get_by_text("50 records of").wait_for()
    assert page.get_by_label("Time (UTC)").first.input_value() == "2020-01-01T00:00"
    opened.go("topics")
    page.get_by_label("Name contains").fill(kafka_name)
    page.get_by_label("Show internal topics").check()
    page.locator(f"a:text-is('{kafka_name}')").click()
    page.wait_for_selector(f"main h1:text-is('{kafka_name}')")
    page.go_back()
    page.wait_for_selector("main h1:text-is('Topics')")
    assert page.get_by_label("Name contains").input_value() == kafka_name
    assert page.get_by_label("Show internal topics").is_checked()
    page.get_by_text("1 topic, 3 partitions").wait_for()


def test_back_is_not_undone_by_the_view_that_is_left(opened: Looked) -> None:
    page = opened.go("topics")
    page.locator("a:text-is('orders')").click()
    page.get_by_text("50 records of").wait_for()
    # The view is told that it is left by `hashchange`, which comes after this event.
    page.evaluate(
        "addEventListener('popstate', () => [...document.querySelectorAll('form.bar button')]"
        ".find((each) => each.textContent === 'Read').click(), { once: true })"
    )
    page.go_back()
    page.wait_for_selector("main h1:text-is('Topics')")


def test_a_refresh_leaves_selected_text_and_what_is_the_same_alone(timed: Looked, cluster: ottla.Cluster) -> None:
    cluster.create_topic("selected")
    page = timed.go("topic/selected/partitions")
    page.locator("tbody tr").first.wait_for()
    page.evaluate("() => { window.row = document.querySelector('tbody tr'); }")
    offsets = page.locator("dl div", has_text="Offsets").locator("dd")
    selected = page.evaluate(
        "() => { getSelection().selectAllChildren(document.querySelector('dl')); return `${getSelection()}`; }"
    )
    assert "Topic id" in selected
    send(cluster, "selected", 5)
    page.clock.fast_forward(4_000)
    page.locator("tbody td", has_text=re.compile(r"^5$")).first.wait_for()
    assert page.evaluate("`${getSelection()}`") == selected
    assert page.evaluate("document.querySelector('tbody tr') === window.row")
    assert offsets.inner_text() == "0"
    # Selecting more of it does not keep the page busy for ever.
    page.evaluate("getSelection().extend(document.querySelector('dl dd').firstChild, 1)")
    assert page.evaluate("new Promise((done) => setTimeout(() => done('alive'), 0))") == "alive"
    # It is up to date as soon as nothing is selected.
    page.evaluate("getSelection().removeAllRanges()")
    page.locator("dl dd", has_text=re.compile(r"^5$")).wait_for()


def test_a_fault_keeps_its_button_while_it_fires(opened: Looked, cluster: ottla.Cluster) -> None:
    cluster.create_topic("faulty")
    page = opened.page
    with cluster.faults.delay_ack(topic="faulty", delay_ms=1) as delay:
        opened.go("served")
        button = page.get_by_role("button", name="Heal fault")
        button.focus()
        box = button.bounding_box()
        page.mouse.move(box["x"] + 5, box["y"] + 5)
        page.mouse.down()
        send(cluster, "faulty", 1)
        delay.await_fired(1)
        page.get_by_text("fired 1").wait_for()
        assert "Heal" in page.evaluate("document.activeElement.textContent")
        page.mouse.up()
        page.get_by_text("No fault is in force.").wait_for()


def test_a_view_asks_again_after_the_last_answer_and_says_that_it_loads(timed: Looked, cluster: ottla.Cluster) -> None:
    page = timed.page
    stop_clock(page)
    asked: list[str] = []
    page.on("request", lambda each: asked.append(each.url) if each.url.endswith("/api/topics/orders") else None)
    with cluster.faults.hold(api="ListOffsets") as held:
        page.goto(f"{timed.url}#/topic/orders/partitions")
        page.locator("main").get_by_text("Loading").wait_for()
        page.wait_for_selector("main h1:text-is('orders')")
        held.await_fired(1)
    page.locator("tbody tr").first.wait_for()
    with cluster.faults.hold(api="ListOffsets") as held:
        asked.clear()
        for _ in range(4):
            page.clock.fast_forward(3_500)
        held.await_fired(1)
        page.evaluate("1")
        assert len(asked) == 1
    page.clock.resume()
    page.clock.fast_forward(3_500)
    with page.expect_request("**/api/topics/orders"):
        page.clock.fast_forward(3_500)


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_search_and_send_are_seen_without_scrolling(
    chromium: Any, server: ConsoleServer, orders: str, size: tuple[int, int]
) -> None:
    with chromium.new_context(viewport={"width": size[0], "height": size[1]}) as context:
        page = Looked(context.new_page(), server.url).go(f"topic/{orders}")
        page.locator("button[aria-label^='Record at offset']").first.wait_for()
        for each in (
            page.locator("summary:text-is('Search')"),
            page.locator("summary:text-is('Send')"),
            page.get_by_role("button", name="Export", exact=True),
        ):
            box = each.bounding_box()
            assert box["y"] + box["height"] < size[1]


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_titles_and_names_are_not_cut(chromium: Any, server: ConsoleServer, orders: str, width: int) -> None:
    with chromium.new_context(viewport={"width": width, "height": 844}) as context:
        looked = Looked(context.new_page(), server.url)
        for view in (
            "topics",
            f"topic/{orders}/producers",
            "brokers",
            "served",
            f"topic/{orders}/settings",
            f"topic/{orders}/partitions",
            "transactions",
        ):
            page = looked.go(view)
            page.locator("main tbody tr").first.wait_for()
            if view == "served":
                page.get_by_text("TotalTimeMs Mean").wait_for()
            cut = page.evaluate(
                "() => [...document.querySelectorAll('thead th, thead button, .lined th, .lined td:not(.cut)')]"
                ".filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.textContent)"
            )
            assert cut == [], view
            if width >= 390:
                # All stages of a request have no room on one screen.
                frames = page.locator(".frame" if width == 390 else ".frame:not([aria-label=Requests])").evaluate_all(
                    "all => all.map(f => f.scrollWidth <= f.clientWidth)"
                )
                assert all(frames), view


def test_the_focus_stays_where_a_search_goes_on(opened: Looked, hundreds: str) -> None:
    page = opened.go(f"topic/{hundreds}")
    page.locator("summary:text-is('Search')").click()
    page.get_by_role("button", name="Search", exact=True).click()
    more = page.get_by_role("button", name="Search on")
    more.focus()
    for found in (200, 250):
        page.keyboard.press("Enter")
        page.get_by_text(f"{found} matches in").wait_for()
        page.get_by_role("button", name="Stop").and_(page.locator(":disabled")).wait_for()
        assert page.evaluate("document.activeElement.textContent") == ("Search on" if found < 250 else "Search")


def test_a_search_goes_on_as_it_began_and_begins_anew_with_other_conditions(opened: Looked, hundreds: str) -> None:
    page = opened.go(f"topic/{hundreds}")
    page.locator("summary:text-is('Search')").click()
    page.get_by_role("button", name="Search", exact=True).click()
    more = page.get_by_role("button", name="Search on")
    more.wait_for()
    choose(page, "Partition", "0")
    with page.expect_request("**/search?*") as asked:
        more.click()
    assert "partition=" not in asked.value.url
    page.get_by_text("200 matches in").wait_for()
    page.get_by_label("Value contains").fill("24")
    more.wait_for(state="hidden")
    page.get_by_role("button", name="Search", exact=True).click()
    # 24, 124, 224, and 240 to 249.
    page.get_by_text("Done: 13 matches in 250 records").wait_for()


def test_a_search_that_was_stopped_does_not_say_that_there_is_nothing(opened: Looked, hundreds: str) -> None:
    page = opened.go(f"topic/{hundreds}")
    page.locator("summary:text-is('Search')").click()
    page.get_by_label("Value contains").fill("not there")
    # An answer that never comes.
    page.route("**/search?*", lambda route: None)
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Nothing was found so far.").wait_for()
    page.unroute_all(behavior="ignoreErrors")
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_text("Nothing was found.", exact=True).wait_for()


def test_a_topic_made_again_with_fewer_partitions_offers_those(
    opened: Looked, cluster: ottla.Cluster, looked_at: Console
) -> None:
    cluster.create_topic("again", partitions=3)
    page = opened.go("topic/again")
    choice = page.locator("label:has-text('Partition') select").first
    choice.locator("option").nth(3).wait_for(state="attached")
    assert choice.locator("option").count() == 4
    cluster.delete_topic("again")
    cluster.create_topic("again", partitions=2)
    looked_at.kafka.metadata(fresh=True)
    page.get_by_role("button", name="Read", exact=True).click()
    choice.locator("option").nth(3).wait_for(state="detached")
    page.locator("summary:text-is('Send')").click()
    offered = page.locator("details label:has-text('Partition') option")
    offered.nth(2).wait_for(state="attached")
    assert offered.count() == 3


def test_what_a_served_cluster_that_has_stopped_showed_is_marked_as_old(chromium: Any, cluster: ottla.Cluster) -> None:
    with chromium.new_context() as context:
        [port] = free_ports(1)
        control = ControlServer("127.0.0.1", port)
        with (
            Console(cluster.bootstrap_servers, control=RemoteCluster("127.0.0.1", port)) as console,
            ConsoleServer(console, "127.0.0.1", 0) as server,
        ):
            with control, control.serving(cluster):
                page = Looked(context.new_page(), server.url).go("served")
                kill = page.get_by_role("button", name="kill broker 1")
                kill.wait_for()
            page.get_by_text("What is shown below is old.").wait_for()
            page.locator("main [inert]").wait_for()
            with ControlServer("127.0.0.1", port) as control, control.serving(cluster):
                page.locator("main [inert]").wait_for(state="detached")
                assert page.get_by_text("What is shown below is old.").count() == 0


def test_a_console_that_was_started_again_is_followed_again(chromium: Any, looked_at: Console, orders: str) -> None:
    with chromium.new_context() as context:
        [port] = free_ports(1)
        with ConsoleServer(looked_at, "127.0.0.1", port) as server:
            pages = [Looked(context.new_page(), server.url).go(each) for each in ("served", f"topic/{orders}/logs")]
            pages[0].get_by_role("button", name="kill broker 1").wait_for()
            pages[1].locator(".log").first.wait_for()
        for page in pages:
            page.get_by_text("What is shown below is old.").wait_for()
        with ConsoleServer(looked_at, "127.0.0.1", port):
            for page in pages:
                page.get_by_text("What is shown below is old.").wait_for(state="detached")


def test_a_name_in_a_question_is_quoted_and_spelled_out(opened: Looked, cluster: ottla.Cluster) -> None:
    name = 'pay\n\nPress OK.\u202eKO\u200b\x7f\U000e0001\xa0"é'
    producer = ForeignProducer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    cluster.create_topic("asked-about")
    producer.produce("asked-about", b"open")
    producer.flush(30)
    page = opened.go("transactions")
    asked: list[str] = []

    def answer(dialog: Any) -> None:
        asked.append(dialog.message)
        dialog.accept()

    page.on("dialog", answer)
    page.locator("tr", has_text="Press OK.").get_by_role("button").click()
    told = r'"pay\n\nPress OK.\u202eKO\u200b\u007f\u{e0001}\u00a0\"é"'
    page.get_by_text(f"The producer of {told} is fenced.").wait_for()
    assert asked == [f"Fence the producer of {told}? What it has open is aborted, and it can send nothing more."]


def test_a_wrong_token_and_a_refused_download_are_said(chromium: Any, looked_at: Console, asking: Asking) -> None:
    token = "a-token-of-16-and-more"
    asking.change("POST", "api/topics", {"name": "gone-soon"})
    with ConsoleServer(looked_at, "127.0.0.1", 0, token=token) as server, chromium.new_context() as context:
        page = Looked(context.new_page(), server.url).go("topic/gone-soon")
        assert page.locator(".error").count() == 0
        page.get_by_label("Token").fill("not-the-right-token")
        page.keyboard.press("Enter")
        page.get_by_text("This token is not the right one.").wait_for()
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        page.get_by_text("0 records of 0 offsets").wait_for()
        asking.change("DELETE", "api/topics/gone-soon")
        page.get_by_role("button", name="Export", exact=True).click()
        page.locator("main .error", has_text="there is no such topic").wait_for()
