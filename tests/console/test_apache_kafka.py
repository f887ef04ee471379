"""The console over Apache Kafka: all that it tells and does of the embedded cluster it tells and does there, too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tools.apache_kafka import ApacheKafka
from tools.kafka_jars import JarsUnavailable

import ottla
from ottla.console.console import Console
from ottla.console.server import ConsoleServer

from ..needs import lacking
from . import test_long_records, test_views
from .conftest import Asking
from .looking import HOSTILE, SERIOUS, Looked

pytestmark = pytest.mark.kafka


class Node:
    """One node of Apache Kafka, with as much of `Cluster` as the tests of the views ask for."""

    def __init__(self, kafka: ApacheKafka) -> None:
        self.bootstrap_servers = kafka.bootstrap_servers
        self._admin = ottla.Admin(self.bootstrap_servers)

    def create_topic(self, name: str, *, partitions: int = 1, configs: Mapping[str, Any] | None = None) -> None:
        self._admin.create_topics(name, partitions=partitions, configs=dict(configs or {}))

    def topics(self) -> list[str]:
        return self._admin.list_topics()

    def close(self) -> None:
        self._admin.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Node]:
    # Brokers take a transaction's word, so that one can be left hanging.
    settings = {"transaction.partition.verification.enable": "false", "ssl.keystore.password": "hush-hush"}
    try:
        kafka = ApacheKafka(settings=settings)
    except JarsUnavailable as missing:
        lacking("kafka", missing)
    with kafka:
        node = Node(kafka)
        yield node
        node.close()


@pytest.fixture(scope="module")
def server(cluster: Node) -> Iterator[ConsoleServer]:
    with Console(cluster.bootstrap_servers) as console, ConsoleServer(console, "127.0.0.1", 0) as server:
        yield server


@pytest.fixture
def trusting(cluster: Node, asking: Asking) -> tuple[Node, Asking]:
    return cluster, asking


test_a_topic_is_made_and_deleted = test_views.test_a_topic_is_made_and_deleted
test_what_cannot_be_asked_is_one_sentence = test_views.test_what_cannot_be_asked_is_one_sentence
test_pages_lead_through_all_records_and_back = test_views.test_pages_lead_through_all_records_and_back
test_a_page_begins_at_an_offset_or_a_time = test_views.test_a_page_begins_at_an_offset_or_a_time
test_what_is_no_text_is_shown_as_digits = test_views.test_what_is_no_text_is_shown_as_digits_and_what_is_long_in_part
test_long_and_short_records_stand_in_one_page = test_long_records.test_long_and_short_records_stand_in_one_page
test_a_record_says_how_its_transaction_ended = test_views.test_a_record_says_whether_its_transaction_was_committed
test_a_search_finds_what_is_asked_for = test_views.test_a_search_finds_what_is_asked_for_and_says_how_far_it_has_come
test_a_record_is_sent_and_a_file_taken_in = test_views.test_a_record_is_sent_and_a_file_taken_in_as_it_was_exported
test_a_group_is_told_with_its_lag = test_views.test_a_group_is_told_with_its_lag
test_a_hanging_transaction_is_found_and_aborted = test_views.test_a_hanging_transaction_is_found_and_aborted


def test_brokers_and_topics_are_told_with_what_they_store(asking: Asking, cluster: Node, kafka_name: str) -> None:
    cluster.create_topic(kafka_name, partitions=2)
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for _ in range(5):
            producer.send(kafka_name, bytes(1000), partition=0)
    told = asking.get("api/brokers")
    [broker] = told["brokers"]
    assert (broker["id"], told["missing"], told["sizes_untold"]) == (1, [], None)
    assert broker["bytes"] > 5000
    [folder] = broker["log_dirs"]
    assert folder["total_bytes"] > folder["usable_bytes"] > 0
    assert asking.get("api/topic-sizes")["offsets"][kafka_name] == 5
    first, second = asking.get(f"api/topics/{kafka_name}")["partitions"]
    assert (first["high_watermark"], first["last_stable_offset"], first["log_end_offset"]) == (5, 5, 5)
    assert first["bytes"] > 5000
    assert (second["high_watermark"], second["bytes"]) == (0, 0)
    configs = {each["name"]: each for each in asking.get(f"api/topics/{kafka_name}/configs")["configs"]}
    assert (configs["cleanup.policy"]["value"], configs["cleanup.policy"]["source"]) == ("delete", "default")
    assert len(asking.get("api/brokers/1/configs")["configs"]) > 100
    [producer_seen] = asking.get(f"api/topics/{kafka_name}/producers")["producers"]
    assert producer_seen["last_sequence"] == 4


def test_a_hanging_transaction_is_aborted_by_its_button(
    chromium: Any, server: ConsoleServer, cluster: Node, kafka_name: str
) -> None:
    cluster.create_topic(kafka_name, configs=test_views.AS_OLD_AS_IT_IS)
    test_views.leave_hanging(cluster.bootstrap_servers, kafka_name)
    with chromium.new_context(viewport={"width": 1280, "height": 900}) as context:
        looked = Looked(context.new_page(), server.url)
        page = looked.go(f"topic/{kafka_name}/producers")
        page.on("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="of producer 4711").click()
        page.get_by_text("The transaction of producer 4711 is aborted.").wait_for()
        page = looked.go(f"topic/{kafka_name}")
        page.get_by_role("row").filter(has_text="stuck").get_by_text("aborted").wait_for()
        assert looked.said == []


@pytest.mark.parametrize("width", [320, 1440])
def test_every_view_opens(chromium: Any, server: ConsoleServer, cluster: Node, kafka_name: str, width: int) -> None:
    cluster.create_topic(kafka_name, partitions=3)
    with ottla.Producer(cluster.bootstrap_servers, transactional_id=kafka_name) as producer:
        producer.init_transactions()
        with producer.transaction():
            for number in range(9):
                producer.send(kafka_name, HOSTILE.encode(), f"{number}".encode(), partition=number % 3)
    with chromium.new_context(viewport={"width": width, "height": 900}) as context:
        looked = Looked(context.new_page(), server.url)
        for view, waits_for in (
            ("topics", f"a:text-is('{kafka_name}')"),
            ("brokers", "main tbody tr"),
            ("groups", "main tbody tr"),
            ("transactions", f"main :text('{kafka_name}')"),
            (f"topic/{kafka_name}", "button[aria-label^='Record at offset']"),
            (f"topic/{kafka_name}/partitions", "main tbody tr"),
            (f"topic/{kafka_name}/producers", "main tbody tr"),
            (f"topic/{kafka_name}/settings", "main tbody tr"),
        ):
            page = looked.go(view)
            page.wait_for_selector(waits_for)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
            assert looked.serious() == [], (view, SERIOUS)
            assert page.locator("main .error").all_inner_texts() == []
        assert page.locator("#nav").get_by_text("Served cluster").count() == 0
        assert looked.said == []


def test_secrets_are_hidden_and_what_is_not_set_is_told_so(asking: Asking) -> None:
    status, _, content = asking.raw("GET", "api/brokers/1/configs")
    assert (status, b"hush-hush" in content) == (200, False)
    configs = {each["name"]: (each["value"], each["source"]) for each in json.loads(content)["configs"]}
    assert configs["ssl.keystore.password"] == ("[hidden]", "file")
    # Its name looks like a secret, and it is none.
    assert configs["ssl.keystore.location"] == (None, "default")
    assert configs["ssl.truststore.password"] == (None, "default")
