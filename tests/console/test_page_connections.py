"""What the page asks its console for while it is hidden, left, or older than the console, as Chromium does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tools.ports import free_ports

import ottla
from ottla.console.console import Console
from ottla.console.server import ConsoleServer

from .conftest import Asking
from .looking import Looked


@pytest.mark.prove
def test_a_page_does_nothing_unasked_once_its_console_was_started_again(
    chromium: Any, looked_at: Console, cluster: ottla.Cluster
) -> None:
    cluster.create_topic("sent-on")
    with chromium.new_context() as context:
        [port] = free_ports(1)
        with ConsoleServer(looked_at, "127.0.0.1", port) as server:
            looked = Looked(context.new_page(), server.url)
            page = looked.go("topic/sent-on")
            page.locator("summary:text-is('Send')").click()
            page.get_by_label("Value", exact=True).fill("one")
            page.get_by_role("button", name="Send the record").click()
            page.get_by_text("Stored in partition 0 at offset 0.").wait_for()
        with ConsoleServer(looked_at, "127.0.0.1", port):
            page.get_by_role("button", name="Send the record").click()
            page.get_by_text("The console was started again, and nothing was done.").wait_for()
            page.get_by_role("button", name="Send the record").click()
            page.get_by_text("Stored in partition 0 at offset 1.").wait_for()
        # Another Kafka at the same address does not get what was meant for this one.
        with (
            ottla.Cluster(1) as another,
            Console(another.bootstrap_servers) as console,
            ConsoleServer(console, "127.0.0.1", port),
        ):
            another.create_topic("sent-on")
            page.get_by_role("button", name="Send the record").click()
            page.get_by_text("The console was started again, and nothing was done.").wait_for()
            assert Asking(server.url).get("api/topics/sent-on/records")["records"] == []


@pytest.mark.prove
def test_tabs_that_are_hidden_leave_the_browser_s_connections_to_others(
    chromium: Any, server: ConsoleServer, cluster: ottla.Cluster
) -> None:
    cluster.create_topic("many-tabs")
    with chromium.new_context() as context:
        tabs = [context.new_page() for _ in range(7)]
        for page in tabs:
            # Chromium without a window calls every tab visible.
            page.add_init_script(
                "Object.defineProperty(document, 'hidden', {get: () => window.isHidden === true});"
                "window.hide = (is) => { window.isHidden = is;"
                " document.dispatchEvent(new Event('visibilitychange')); };"
            )
        for page in tabs:
            Looked(page, server.url).go("topic/many-tabs/logs")
            page.get_by_text("high watermark 0").first.wait_for()
            page.evaluate("hide(true)")
        tabs[-1].evaluate("hide(false)")
        # What happened meanwhile is shown in a tab that is looked at again.
        with ottla.Producer(cluster.bootstrap_servers) as producer:
            producer.send("many-tabs", b"value").result(30)
        tabs[-1].get_by_text("high watermark 1").first.wait_for()
        assert tabs[0].get_by_text("high watermark 1").count() == 0
        tabs[0].evaluate("hide(false)")
        tabs[0].get_by_text("high watermark 1").first.wait_for()


@pytest.mark.prove
def test_an_import_ends_when_its_view_is_left(
    chromium: Any, server: ConsoleServer, cluster: ottla.Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("left-alone")
    file = tmp_path / "records.ndjson"
    file.write_text('{"value": "x"}\n')
    with chromium.new_context() as context, cluster.faults.hold(topic="left-alone", api="Produce") as held:
        page = Looked(context.new_page(), server.url).go("topic/left-alone")
        page.locator("summary:text-is('Send')").click()
        page.get_by_label("A file with one JSON object a line").set_input_files(file)
        page.get_by_role("button", name="Import").click()
        page.get_by_text("The import ends when this view is left.").wait_for()
        held.await_fired(1)
        with page.expect_event("requestfailed", lambda request: request.url.endswith("/import")):
            page.locator("#nav").get_by_text("Topics", exact=True).click()
        page.wait_for_selector("main h1:text-is('Topics')")
