"""What a proxy writes down: what clients saw, and no secrets."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import ottla
from ottla import Listener
from ottla.errors import UserMistake
from ottla.proxy.recording import SteadyClock
from ottla.tap.byte_source import ByteSource
from ottla.tap.capture import CaptureReader
from ottla.tap.exchange import Entry, Exchange, Outcome

pytest.importorskip("scramp")

_PATIENCE_S = 60
_PASSWORD = "a-password-4711"


def entries_of(capture: Path) -> list[Entry]:
    with capture.open("rb") as file:
        reader = CaptureReader(ByteSource(file), capture.name)
        entries = list(reader.entries())
    assert reader.cut_off is None
    return entries


def of_api(capture: Path, api: str) -> list[Exchange]:
    return [each for each in entries_of(capture) if isinstance(each, Exchange) and each.api == api]


def test_a_produced_batch_is_told_by_its_hash_and_place(cluster: ottla.Cluster, topic: str, tmp_path: Path) -> None:
    capture = tmp_path / "seen.capture"
    with ottla.Proxy(cluster.bootstrap_servers, record=capture) as proxy:
        with ottla.Producer(proxy.bootstrap_servers, client_id="ada") as producer:
            producer.send(topic, b"precious").result(_PATIENCE_S)
        assert ottla.read_table(proxy.bootstrap_servers, topic).num_rows == 1
    [produced] = of_api(capture, "Produce")
    [part] = produced.partitions
    assert (produced.client_id, produced.acks, produced.error) == ("ada", -1, None)
    assert (part.topic, part.partition, part.record_count, part.offset) == (topic, 0, 1, 0)
    fetched = [part for each in of_api(capture, "Fetch") for part in each.partitions if part.batches]
    # The broker stamps its own fields outside of what the hash covers.
    assert {batch.sha256 for each in fetched for batch in each.batches} == {part.batches[0].sha256}
    assert b"precious" not in capture.read_bytes()


def test_addresses_in_a_recording_are_those_that_clients_got(
    cluster: ottla.Cluster, topic: str, tmp_path: Path
) -> None:
    capture = tmp_path / "seen.capture"
    with ottla.Proxy(cluster.bootstrap_servers, record=capture, payloads=True) as proxy:
        with ottla.Producer(proxy.bootstrap_servers) as producer:
            producer.send(topic, b"v").result(_PATIENCE_S)
        ports = [int(node["local"].rpartition(":")[2]) for node in proxy.describe()["nodes"]]
    frames = [each.response_frame or b"" for each in of_api(capture, "Metadata")]
    assert frames
    assert all(port.to_bytes(4, "big") in frame for port in ports for frame in frames)


def test_a_lost_answer_is_unanswered_there(cluster: ottla.Cluster, topic: str, tmp_path: Path) -> None:
    capture = tmp_path / "seen.capture"
    with (
        ottla.Proxy(cluster.bootstrap_servers, record=capture) as proxy,
        proxy.faults.lose_ack(topic=topic, nth=1),
        ottla.Producer(proxy.bootstrap_servers) as producer,
    ):
        producer.send(topic, b"v").result(_PATIENCE_S)
    assert [each.outcome for each in of_api(capture, "Produce")] == [Outcome.UNANSWERED, Outcome.ANSWERED]


def test_payloads_are_kept_where_asked_for_and_passwords_never(tmp_path: Path) -> None:
    capture = tmp_path / "seen.capture"
    listeners = {"PLAINTEXT": Listener(), "SASL": Listener(protocol="SASL_PLAINTEXT", users={"ada": _PASSWORD})}
    with ottla.Cluster(brokers=1, listeners=listeners) as cluster:
        cluster.create_topic("orders")
        with ottla.Proxy(cluster.bootstrap_servers_of("SASL"), record=capture, payloads=True) as proxy:
            settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
            who = {"sasl_username": "ada", "sasl_password": _PASSWORD}
            with ottla.Producer(proxy.bootstrap_servers, **settings, **who) as producer:
                producer.send("orders", b"precious").result(_PATIENCE_S)
    exchanges = [each for each in entries_of(capture) if isinstance(each, Exchange)]
    frames = [frame for each in exchanges for frame in (each.request_frame, each.response_frame) if frame]
    assert any(b"precious" in frame for frame in frames)
    assert not any(_PASSWORD.encode() in frame for frame in frames)
    assert all(each.request_frame is None for each in of_api(capture, "SaslAuthenticate"))
    assert of_api(capture, "SaslAuthenticate")


def test_a_place_where_no_file_can_be_is_told(cluster: ottla.Cluster, tmp_path: Path) -> None:
    capture = tmp_path / "no such folder" / "seen.capture"
    with pytest.raises(UserMistake, match=r"the capture cannot be written to .*seen\.capture \(No such file"):
        ottla.Proxy(cluster.bootstrap_servers, record=capture)


def test_nothing_is_left_of_a_recording_whose_proxy_gets_no_port(cluster: ottla.Cluster, tmp_path: Path) -> None:
    capture = tmp_path / "seen.capture"
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UserMistake, match="is in use"):
        ottla.Proxy(cluster.bootstrap_servers, listener=Listener(port=taken.getsockname()[1]), record=capture)
    assert not capture.exists()


def test_a_disk_that_is_full_ends_the_recording_and_not_the_proxy(
    cluster: ottla.Cluster, topic: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")
    with (
        full.open("wb", buffering=0) as nowhere,
        ottla.Proxy(cluster.bootstrap_servers, record=tmp_path / "seen.capture") as proxy,
        ottla.Producer(proxy.bootstrap_servers) as producer,
    ):
        recording = proxy._server.recording
        assert recording is not None
        assert recording._writer is not None
        recording._writer.close()
        recording._writer._file = nowhere
        producer.send(topic, b"v").result(_PATIENCE_S)
    assert "nothing more is recorded" in caplog.text


def test_times_go_on_where_the_machines_clock_is_set_back() -> None:
    machine = iter([1_000, 1_500, 400, 700, 5_000])
    clock = SteadyClock(lambda: next(machine))
    assert [clock.now_us() for _ in range(5)] == [1_000, 1_500, 1_500, 1_800, 6_100]
