"""What the page does with answers that come late or in another order, and with clicks that come twice."""

from __future__ import annotations

from typing import Any

import pytest
from tools.ports import free_ports

import ottla
from ottla.console.console import Console
from ottla.console.server import ConsoleServer

from .conftest import controlled
from .looking import Answers, Looked, choose

pytestmark = pytest.mark.prove


@pytest.fixture
def answers(opened: Looked) -> Answers:
    """The answers that `opened` gets."""
    return Answers(opened.page)


def follow(page: Any, view: str) -> None:
    """Go there as by a link of the page, and do not wait."""
    page.evaluate("view => { location.hash = `#/${view}`; }", view)


def test_the_settings_shown_are_those_of_the_broker_asked_for_last(opened: Looked, answers: Answers) -> None:
    page = opened.go("brokers")
    answers.hold("brokers/1/configs")
    page.get_by_role("button", name="Settings of broker 1").click()
    answers.await_held()
    page.get_by_role("button", name="Settings of broker 2").click()
    page.get_by_role("region", name="Settings of broker 2").wait_for()
    answers.let_go()
    assert page.locator("main h2").all_inner_texts() == ["Settings of broker 2"]


def test_a_topic_made_on_the_page_is_not_taken_away_by_an_older_answer(
    opened: Looked, answers: Answers, cluster: ottla.Cluster, kafka_name: str
) -> None:
    page = opened.page
    page.clock.install()
    opened.go("topics")
    page.locator("a:text-is('orders')").wait_for()
    answers.hold("api/topics")
    page.clock.run_for(6_000)
    answers.await_held()
    answers.hold_no_more()
    page.locator("summary:text-is('Create a topic')").click()
    # The answer to the page's own question, asked before, lacks this topic.
    page.get_by_label("Name", exact=True).fill(kafka_name)
    page.get_by_role("button", name="Create", exact=True).click()
    page.locator(f"tr[data-key='{kafka_name}']").wait_for()
    answers.let_go()
    assert page.locator(f"tr[data-key='{kafka_name}']").count() == 1
    cluster.delete_topic(kafka_name)


def test_who_has_left_the_view_of_a_topic_is_not_led_away_when_it_is_deleted(
    opened: Looked, answers: Answers, cluster: ottla.Cluster, kafka_name: str
) -> None:
    cluster.create_topic(kafka_name)
    page = opened.go(f"topic/{kafka_name}/partitions")
    page.locator("summary:text-is('Delete this topic')").click()
    page.get_by_label("Type its name").fill(kafka_name)
    answers.hold(f"api/topics/{kafka_name}")
    page.get_by_role("button", name="Delete the topic").click()
    # The page's own refresh has the same path.
    answers.await_held()
    follow(page, "brokers")
    page.get_by_role("button", name="Settings of broker 1").wait_for()
    while answers.count():
        answers.let_go()
    page.locator("#state").get_by_text(f"Topic {kafka_name} is deleted.").wait_for()
    assert page.url.endswith("#/brokers")
    assert page.locator("main h1").inner_text() == "Brokers"


def test_a_producer_that_is_fenced_after_its_view_was_left_is_no_error(
    opened: Looked, answers: Answers, cluster: ottla.Cluster, kafka_name: str
) -> None:
    cluster.create_topic(kafka_name)
    page = opened.page
    page.on("dialog", lambda dialog: dialog.accept())
    with ottla.Producer(cluster.bootstrap_servers, transactional_id=kafka_name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(kafka_name, b"value").result(30)
        opened.go("transactions")
        answers.hold("transactions/end")
        page.get_by_role("button", name=f"End the transaction of {kafka_name}").click()
        answers.await_held()
        follow(page, "brokers")
        page.get_by_role("button", name="Settings of broker 1").wait_for()
        answers.let_go()
        assert page.locator("#state").inner_text() == f'The producer of "{kafka_name}" is fenced.'
        with pytest.raises(ottla.OttlaError):
            producer.commit_transaction()


def test_a_topic_that_is_tried_again_may_be_left_before_the_answer(
    opened: Looked, answers: Answers, kafka_name: str
) -> None:
    page = opened.go(f"topic/{kafka_name}")
    page.locator("main .error").wait_for()
    answers.hold(f"api/topics/{kafka_name}")
    page.get_by_role("button", name="Try again").click()
    answers.await_held()
    follow(page, "brokers")
    page.get_by_role("button", name="Settings of broker 1").wait_for()
    answers.let_go()
    assert page.locator("main h1").inner_text() == "Brokers"
    opened.said[:] = [each for each in opened.said if "404" not in each]


def test_a_topic_that_is_tried_again_asks_for_a_token_that_is_new(
    chromium: Any, looked_at: Console, kafka_name: str, orders: str
) -> None:
    [port] = free_ports(1)
    first, second = "the-first-token-here", "the-second-token-here"
    with chromium.new_context() as context:
        with ConsoleServer(looked_at, "127.0.0.1", port, token=first) as server:
            page = context.new_page()
            page.goto(f"{server.url}#token={first}")
            page.locator(f"a:text-is('{orders}')").wait_for()
            follow(page, f"topic/{kafka_name}")
            page.get_by_role("button", name="Try again").wait_for()
        with ConsoleServer(looked_at, "127.0.0.1", port, token=second):
            page.get_by_role("button", name="Try again").click()
            page.get_by_label("Token").fill(second)
            page.keyboard.press("Enter")
            page.get_by_role("button", name="Try again").wait_for()


def test_a_token_in_the_address_of_a_page_that_asks_for_one_shows_all_of_the_page(
    chromium: Any, looked_at: Console, cluster: ottla.Cluster, orders: str
) -> None:
    token = "a-token-of-16-and-more"
    with (
        ConsoleServer(looked_at, "127.0.0.1", 0, token=token, read_only=True) as server,
        chromium.new_context() as context,
    ):
        page = Looked(context.new_page(), server.url).go("topics")
        page.get_by_label("Token").wait_for()
        page.goto(f"{server.url}#token={token}")
        page.locator(f"a:text-is('{orders}')").wait_for()
        assert page.locator("#where").inner_text() == f"{cluster.bootstrap_servers} read-only"
        assert page.locator("#nav").get_by_text("Served cluster").count() == 1
        assert page.locator("summary:text-is('Create a topic')").count() == 0


def test_the_token_given_last_counts(chromium: Any, looked_at: Console, orders: str) -> None:
    token = "a-token-of-16-and-more"
    with (
        ConsoleServer(looked_at, "127.0.0.1", 0, token=token) as server,
        chromium.new_context() as context,
    ):
        page = context.new_page()
        answers = Answers(page)
        Looked(page, server.url).go("topics")
        page.get_by_label("Token").fill("not-the-right-token")
        answers.hold("api/session")
        page.get_by_role("button", name="Open").click()
        answers.await_held()
        answers.hold_no_more()
        page.goto(f"{server.url}#token={token}")
        page.locator(f"a:text-is('{orders}')").wait_for()
        answers.let_go()
        assert page.locator(f"a:text-is('{orders}')").count() == 1


def test_a_topic_is_not_scrolled_back_when_its_records_come(opened: Looked, answers: Answers, orders: str) -> None:
    page = opened.page
    page.set_viewport_size({"width": 390, "height": 300})
    opened.go("topics")
    answers.hold(f"topics/{orders}/records")
    follow(page, f"topic/{orders}")
    answers.await_held()
    page.evaluate("scrollTo(0, 50)")
    answers.let_go()
    page.locator("button[aria-label^='Record at offset']").first.wait_for()
    assert page.evaluate("scrollY") == 50


def test_a_record_keeps_its_address_while_it_is_open(opened: Looked, answers: Answers, orders: str) -> None:
    page = opened.go(f"topic/{orders}")
    page.get_by_role("button", name="Record at offset 30 of partition 0").wait_for()
    answers.hold(f"topics/{orders}/records")
    page.get_by_role("button", name="Record at offset 30 of partition 0").click()
    page.locator("dialog").get_by_text("Its batch").wait_for()
    # The event of a dialog that is closed comes when the next one is open.
    page.evaluate(
        "() => { document.querySelector('dialog').close();"
        " document.querySelector('button[aria-label=\"Record at offset 29 of partition 1\"]').click(); }"
    )
    page.get_by_role("heading", name=f"{orders}-1 at offset 29").wait_for()
    page.locator("dialog").get_by_text("Its batch").wait_for()
    assert page.locator("dialog").count() == 1
    assert page.url.endswith(f"#/topic/{orders}/records/1/29")
    # The records are read again, as after a record was sent.
    page.evaluate(
        "[...document.querySelectorAll('form.bar button')].find((each) => each.textContent === 'Read').click()"
    )
    answers.await_held()
    assert page.url.endswith(f"#/topic/{orders}/records/1/29")
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    assert page.url.endswith(f"#/topic/{orders}/records")


def test_a_double_click_kills_a_broker_and_does_not_start_it_again(chromium: Any) -> None:
    with (
        ottla.Cluster(1) as cluster,
        controlled(cluster) as control,
        Console(cluster.bootstrap_servers, control=control) as console,
        ConsoleServer(console, "127.0.0.1", 0) as server,
        chromium.new_context() as context,
    ):
        page = Looked(context.new_page(), server.url).go("served")
        asked: list[str] = []
        # A sentence stands there already, so the next one does not move the button.
        choose(page, "Clients push their metrics", "0")
        page.get_by_role("button", name="Apply").click()
        page.get_by_text("Clients are not asked for metrics here.").wait_for()
        page.on("request", lambda each: asked.append(each.url) if each.method == "POST" else None)
        kill = page.get_by_role("button", name="kill broker 1")
        kill.scroll_into_view_if_needed()
        box = kill.bounding_box()
        page.mouse.click(box["x"] + 5, box["y"] + 5)
        start = page.get_by_role("button", name="start broker 1")
        start.wait_for()
        # "start" stands where "kill" was.
        page.evaluate("addEventListener('click', (event) => { window.clicked = event.target; }, { once: true })")
        page.mouse.down(click_count=2)
        page.mouse.up(click_count=2)
        assert page.evaluate("window.clicked.textContent") == "start"
        assert len(asked) == 1
        start.click()
        kill.wait_for()


def test_a_double_click_exports_once(opened: Looked, answers: Answers, orders: str) -> None:
    page = opened.go(f"topic/{orders}")
    downloads: list[Any] = []
    page.on("download", lambda each: downloads.append(each))
    answers.hold("api/one-time-token")
    export = page.get_by_role("button", name="Export", exact=True)
    export.click()
    answers.await_held()
    export.click(force=True)
    answers.hold_no_more()
    with page.expect_download():
        while answers.count():
            answers.let_go()
    page.locator("button:text-is('Export'):enabled").wait_for()
    assert len(downloads) == 1


def test_what_a_search_tells_as_found_is_drawn(opened: Looked, orders: str) -> None:
    page = opened.go(f"topic/{orders}")
    page.locator("summary:text-is('Search')").click()
    # Count the rows at the moment when the sentence appears.
    page.evaluate(
        "new MutationObserver((_, observing) => {"
        " if (!document.querySelector('main').textContent.includes('Done: 93 matches')) return;"
        " observing.disconnect();"
        " window.drawn = document.querySelectorAll('[aria-label=\"Records found\"] tbody tr').length;"
        "}).observe(document.querySelector('main'), { childList: true, subtree: true, characterData: true })"
    )
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_text("Done: 93 matches").wait_for()
    assert page.evaluate("window.drawn") == 93


def test_a_tab_that_is_looked_at_again_is_up_to_date_at_once(
    opened: Looked, looked_at: Console, cluster: ottla.Cluster, kafka_name: str
) -> None:
    page = opened.page
    page.clock.install()
    page.add_init_script("Object.defineProperty(document, 'hidden', { get: () => window.isHidden === true });")
    opened.go("topics")
    page.locator("a:text-is('orders')").wait_for()
    page.evaluate("() => { window.isHidden = true; }")
    page.clock.run_for(60_000)
    cluster.create_topic(kafka_name)
    looked_at.kafka.metadata(fresh=True)
    # No refresh is due from here on.
    page.clock.pause_at(page.evaluate("Date.now()") + 1_000)
    page.evaluate("() => { window.isHidden = false; document.dispatchEvent(new Event('visibilitychange')); }")
    page.locator(f"tr[data-key='{kafka_name}']").wait_for()
    cluster.delete_topic(kafka_name)


def test_a_refresh_takes_away_only_what_it_has_said(opened: Looked, cluster: ottla.Cluster, kafka_name: str) -> None:
    page = opened.page
    page.clock.install()
    opened.go("topics")
    page.locator("a:text-is('orders')").wait_for()
    page.route("**/api/topics", lambda route: route.abort() if route.request.method == "GET" else route.continue_())
    page.clock.run_for(6_000)
    page.get_by_text("The console does not answer").wait_for()
    page.locator("summary:text-is('Create a topic')").click()
    page.get_by_label("Name", exact=True).fill(kafka_name)
    page.get_by_role("button", name="Create", exact=True).click()
    page.locator("#state").get_by_text(f"Topic {kafka_name} is there.").wait_for()
    page.unroute("**/api/topics")
    with page.expect_response("**/api/topics"):
        page.clock.run_for(6_000)
    page.locator(f"tr[data-key='{kafka_name}']").wait_for()
    assert page.locator("#state").inner_text() == f"Topic {kafka_name} is there."
    cluster.delete_topic(kafka_name)
    opened.said[:] = [each for each in opened.said if "ERR_FAILED" not in each]


def test_a_search_that_is_cut_off_says_so_in_a_sentence(
    chromium: Any, looked_at: Console, cluster: ottla.Cluster, kafka_name: str
) -> None:
    cluster.create_topic(kafka_name, replication_factor=1)
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        producer.send(kafka_name, b"value").result(30)
    with chromium.new_context() as context, cluster.faults.hold(topic=kafka_name, api="Fetch") as held:
        with ConsoleServer(looked_at, "127.0.0.1", 0) as server:
            page = Looked(context.new_page(), server.url).go(f"topic/{kafka_name}/partitions")
            page.get_by_label("Parts of the topic").get_by_text("Records", exact=True).click()
            page.locator("summary:text-is('Search')").click()
            page.get_by_role("button", name="Search", exact=True).click()
            page.get_by_role("status").filter(has_text="Searching: 0 matches").wait_for()
            held.await_fired(1)
        page.get_by_role("alert").filter(has_text="The console does not answer: is it still running?").last.wait_for()
        assert "network error" not in page.locator("main").inner_text()


def test_partitions_offered_are_those_of_the_newest_answer(
    opened: Looked, answers: Answers, cluster: ottla.Cluster, looked_at: Console, kafka_name: str
) -> None:
    cluster.create_topic(kafka_name, partitions=3)
    page = opened.go(f"topic/{kafka_name}")
    options = page.locator("label:has-text('Partition') select").first.locator("option")
    options.nth(3).wait_for(state="attached")
    page.get_by_text("0 records of 0 offsets").wait_for()
    read = page.get_by_role("button", name="Read", exact=True)
    answers.hold(f"api/topics/{kafka_name}")
    read.click()
    answers.await_held()
    answers.hold_no_more()
    cluster.delete_topic(kafka_name)
    cluster.create_topic(kafka_name, partitions=2)
    looked_at.kafka.metadata(fresh=True)
    read.click()
    options.nth(3).wait_for(state="detached")
    answers.let_go()
    assert options.count() == 3


def test_a_client_that_comes_leaves_the_others_alone(opened: Looked) -> None:
    page = opened.page
    page.clock.install()
    clients = [
        {
            "client_instance_id": name,
            "broker": 1,
            "client_id": name,
            "software_name": "ottla",
            "software_version": "1",
            "pushes": 1,
            "is_terminated": False,
            "metrics": [],
            "diagnosis": None,
        }
        for name in ("first", "second")
    ]
    told = clients[1:]
    page.route("**/api/served/clients", lambda route: route.fulfill(json={"clients": told}))
    opened.go("served")
    second = page.locator("section[data-client='second 1']")
    second.locator("summary").focus()
    page.evaluate("getSelection().selectAllChildren(document.querySelector('[data-client=\"second 1\"] p'))")
    told = clients
    clients[1]["pushes"] = 2
    page.clock.run_for(3_000)
    page.locator("section[data-client='first 1']").wait_for()
    second.get_by_text("2 pushes").wait_for()
    assert page.locator("main section[data-client] h3").all_inner_texts() == ["first", "second"]
    assert page.evaluate("document.activeElement.textContent") == "Metrics"
    assert page.evaluate("`${getSelection()}`").startswith("What limits it is unknown")


def test_a_name_typed_while_a_topic_is_made_stays(
    opened: Looked, answers: Answers, cluster: ottla.Cluster, kafka_name: str
) -> None:
    page = opened.go("topics")
    page.locator("summary:text-is('Create a topic')").click()
    name = page.get_by_label("Name", exact=True)
    name.fill(kafka_name)
    answers.hold("api/topics")
    page.get_by_role("button", name="Create", exact=True).click()
    answers.await_held()
    name.fill("the-next-one")
    answers.hold_no_more()
    while answers.count():
        answers.let_go()
    page.get_by_text(f"Topic {kafka_name} is there.").wait_for()
    page.locator("button:text-is('Create'):enabled").wait_for()
    assert name.input_value() == "the-next-one"
    cluster.delete_topic(kafka_name)
