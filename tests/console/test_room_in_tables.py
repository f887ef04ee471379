"""What names a row of a table can be read beside all other columns, in Chromium."""

from __future__ import annotations

from typing import Any

import pytest

import ottla
from ottla.console.server import ConsoleServer

pytestmark = pytest.mark.prove


@pytest.mark.parametrize("width", [320, 768, 1280])
def test_what_names_a_row_has_room_beside_many_columns(
    chromium: Any, server: ConsoleServer, cluster: ottla.Cluster, kafka_name: str, width: int
) -> None:
    cluster.create_topic(kafka_name)
    cut = "found => found.filter(each => each.clientWidth < 100).map(each => each.textContent)"
    with (
        ottla.Producer(cluster.bootstrap_servers, client_id="sender-of-orders") as connected,
        chromium.new_context(viewport={"width": width, "height": 900}) as context,
    ):
        connected.send(kafka_name, b"value").result(30)
        page = context.new_page()
        page.goto(f"{server.url}#/served")
        for label in ("Requests", "Producers", "Connections"):
            names = page.get_by_role("region", name=label).locator("tbody th")
            names.first.wait_for()
            assert names.evaluate_all(cut) == [], label


def test_the_time_of_a_record_is_shown_to_the_millisecond(
    chromium: Any, server: ConsoleServer, cluster: ottla.Cluster, kafka_name: str
) -> None:
    cluster.create_topic(kafka_name)
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        producer.send(kafka_name, b"value").result(30)
    with chromium.new_context(viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.goto(f"{server.url}#/topic/{kafka_name}")
        times = page.get_by_role("region", name="Records").locator("tbody td:nth-child(3)")
        times.first.wait_for()
        assert times.evaluate_all("found => found.map(each => each.scrollWidth <= each.clientWidth)") == [True]


def test_the_controller_is_told_in_full(chromium: Any, server: ConsoleServer) -> None:
    with chromium.new_context(viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.goto(f"{server.url}#/brokers")
        badge = page.locator("tbody th:has(.badge)")
        badge.wait_for()
        assert badge.evaluate("each => each.scrollWidth <= each.clientWidth")
