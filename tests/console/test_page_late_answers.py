"""What the page does with answers that come late or in another order, and with clicks that come twice."""

from __future__ import annotations

from typing import Any

import pytest

import ottla
from ottla.console.console import Console
from ottla.console.server import ConsoleServer

from .looking import Answers, Looked

pytestmark = pytest.mark.prove


@pytest.fixture
def answers(opened: Looked) -> Answers:
    """The answers that `opened` gets."""
    return Answers(opened.page)


def follow(page: Any, view: str) -> None:
    """As a link of the page leads there, without a wait."""
    page.evaluate("view => { location.hash = `#/${view}`; }", view)


def test_the_settings_shown_are_those_of_the_broker_asked_for_last(opened: Looked, answers: Answers) -> None:
    page = opened.go("brokers")
    answers.hold("brokers/1/configs")
    page.get_by_role("button", name="Settings of broker 1").click()
    answers.await_held(1)
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
    answers.await_held(1)
    answers.hold_no_more()
    page.locator("summary:text-is('Create a topic')").click()
    # The answer to the page's own question, asked before, lacks this topic.
    page.get_by_label("Name", exact=True).fill(kafka_name)
    page.get_by_role("button", name="Create", exact=True).click()
    page.locator(f"tr[data-key='{kafka_name}']").wait_for()
    answers.let_go()
    assert page.locator(f"tr[data-key='{kafka_name}']").count() == 1
    cluster.delete_topic(kafka_name)


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
        answers.await_held(1)
        answers.hold_no_more()
        page.goto(f"{server.url}#token={token}")
        page.locator(f"a:text-is('{orders}')").wait_for()
        answers.let_go()
        assert page.locator(f"a:text-is('{orders}')").count() == 1
