"""Frames through a real socket: whole, byte by byte, in pieces, and what is not a frame."""

from __future__ import annotations

import os
import select
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.papers import Papers

import ottla
from ottla.client.channel import Channel, SocketBuffers
from ottla.client.tls import TlsSocket
from ottla.connection.loss import REFUSED, Loss, LossKind, Lost
from ottla.connection.settings import ConnectionSettings
from ottla.protocol.frames import FrameBuffer, decode_request, encode_request, encode_response
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.plain import Record, encode_batch


class Line:
    """A connected channel and the blocking socket at its other end."""

    def __init__(self, **buffers: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.channel = Channel(1, "127.0.0.1", listener.getsockname()[1], SocketBuffers(**buffers))
            self.channel.connect([(socket.AF_INET, listener.getsockname())])
            self.broker, _ = listener.accept()
        self.broker.settimeout(10)
        select.select([], [self.channel.fd], [], 10)
        assert self.channel.finish_connecting()

    def ask(self, *correlation_ids: int) -> None:
        for correlation_id in correlation_ids:
            self.channel.enqueue(correlation_id, "test", ApiVersionsRequest(), 3, True)
        assert self.channel.push()

    def alternate(self) -> Iterator[None]:
        """A turn each time one of the two ends can go on."""
        while True:
            select.select([self.broker], [self.channel.fd], [], 10)
            yield

    def take(self, buffer: memoryview) -> int:
        """Read what has arrived at the broker's end, if anything has."""
        readable, _, _ = select.select([self.broker], [], [], 0)
        return self.broker.recv_into(buffer) if readable else 0

    def pull(self) -> tuple[list[tuple[int, Any]], Loss | None]:
        select.select([self.channel.fd], [], [], 10)
        return self.channel.pull()


@pytest.fixture
def line() -> Iterator[Line]:
    line = Line()
    yield line
    line.channel.close()
    line.broker.close()


def answer(correlation_id: int) -> bytes:
    return b"".join(encode_response(correlation_id, ApiVersionsResponse(), 3))


def test_answers_come_in_the_order_of_the_requests(line: Line) -> None:
    line.ask(7, 8, 9)
    line.broker.sendall(answer(7) + answer(8) + answer(9))
    answers, loss = line.pull()
    assert [correlation_id for correlation_id, _ in answers] == [7, 8, 9]
    assert loss is None


def test_an_answer_may_come_byte_by_byte(line: Line) -> None:
    line.ask(7)
    whole = answer(7)
    for at in range(len(whole) - 1):
        line.broker.sendall(whole[at : at + 1])
        assert line.pull() == ([], None)
    line.broker.sendall(whole[-1:])
    assert line.pull() == ([(7, ApiVersionsResponse())], None)


def test_an_answer_before_the_end_is_not_lost(line: Line) -> None:
    line.ask(7, 8)
    line.broker.sendall(answer(7) + answer(8)[:-1])
    line.broker.shutdown(socket.SHUT_WR)
    answers, loss = line.pull()
    if loss is None:
        more, loss = line.pull()
        answers += more
    assert [correlation_id for correlation_id, _ in answers] == [7]
    assert loss is not None
    assert loss.kind is LossKind.CLOSED_EARLY


def test_who_hangs_up_without_an_answer_is_told_apart(line: Line) -> None:
    line.broker.shutdown(socket.SHUT_WR)
    answers, loss = line.pull()
    assert not answers
    assert loss is not None
    assert (loss.kind, loss.detail[:51]) == (LossKind.CLOSED, "it accepted the connection and closed it without an")


@pytest.mark.parametrize(
    ("bytes_sent", "reason"),
    [
        (answer(8), "answered with something that is not the Kafka protocol: it answered request 8 when 7 was due"),
        (answer(7) + answer(7), "answered what was not asked"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x07\xff\xff", "ApiVersionsResponse"),
        (b"\x00\x00\x00\x01\x00", "bytes wanted"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it looks like an HTTP server"),
        (b"\xff\xff\xff\xff", "answered with something that is not the Kafka protocol"),
    ],
)
def test_what_cannot_be_an_answer_ends_the_connection(line: Line, bytes_sent: bytes, reason: str) -> None:
    line.ask(7)
    line.broker.sendall(bytes_sent)
    _, loss = line.pull()
    assert loss is not None
    assert reason in loss.detail


def test_an_impossible_frame_after_good_answers_is_not_called_another_protocol(line: Line) -> None:
    line.ask(7)
    line.broker.sendall(answer(7))
    answers, loss = line.pull()
    assert (len(answers), loss) == (1, None)
    line.broker.sendall(b"\x7f\xff\xff\xff")
    answers, loss = line.pull()
    assert loss is not None
    assert "sent a frame that cannot be" in loss.detail


def test_a_request_larger_than_the_socket_arrives_whole_and_uncopied() -> None:
    line = Line(send_bytes=4096)
    records = encode_batch([Record(0, 0, None, bytes(range(256)) * 1000)])
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1,
        topic_data=[
            TopicProduceData(name="t", partition_data=[PartitionProduceData(index=n, records=records) for n in (0, 1)])
        ],
    )
    line.channel.enqueue(1, "test", request, 9, True)
    frames = FrameBuffer(1 << 24)
    got: list[memoryview] = []
    pushes = 0
    for _ in line.alternate():
        pushes += not line.channel.push()
        got += frames.advance(line.take(frames.get_buffer()))
        if got:
            break
    assert pushes > 1
    _, arrived = decode_request(got[0])
    assert [bytes(part.records) for part in arrived.topic_data[0].partition_data] == [records, records]
    line.channel.close()
    line.broker.close()


def test_more_chunks_than_one_call_takes_arrive_in_order() -> None:
    line = Line()
    for correlation_id in range(1500):
        line.channel.enqueue(correlation_id, "test", ApiVersionsRequest(), 3, True)
    expected = b"".join(
        b"".join(encode_request(correlation_id, "test", ApiVersionsRequest(), 3)) for correlation_id in range(1500)
    )
    assert line.channel.push()
    arrived = b""
    while len(arrived) < len(expected):
        arrived += line.broker.recv(65536)
    assert arrived == expected
    line.channel.close()
    line.broker.close()


def test_requests_without_an_answer_are_reported_once_they_are_out() -> None:
    line = Line(send_bytes=4096)
    records = encode_batch([Record(0, 0, None, b"x" * 600_000)])
    for correlation_id in (1, 2):
        request = ProduceRequest(
            acks=0,
            timeout_ms=1,
            topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])],
        )
        line.channel.enqueue(correlation_id, "test", request, 9, False)
    assert not line.channel.push()
    assert line.channel.take_transmitted() == []
    reported: list[int] = []
    buffer = memoryview(bytearray(1 << 16))
    for _ in line.alternate():
        out = line.channel.push()
        reported += line.channel.take_transmitted()
        line.take(buffer)
        if out:
            break
    assert reported == [1, 2]
    assert line.channel.take_transmitted() == []
    line.channel.close()
    line.broker.close()


def test_the_next_address_is_tried_when_one_refuses(closed_port: str) -> None:
    host, port = closed_port.split(":")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        channel = Channel(1, "two-addresses", 1, SocketBuffers())
        channel.connect([(socket.AF_INET, (host, int(port))), (socket.AF_INET, listener.getsockname())])
        connected = False
        while not connected:
            select.select([], [channel.fd], [], 10)
            connected = channel.finish_connecting()
        channel.close()


def test_no_address_left_says_why(closed_port: str) -> None:
    host, port = closed_port.split(":")
    channel = Channel(1, host, int(port), SocketBuffers())
    channel.connect([(socket.AF_INET, (host, int(port)))])
    select.select([], [channel.fd], [], 10)
    with pytest.raises(Lost, match="connection refused"):
        channel.finish_connecting()


def test_a_refusal_is_known_by_its_number_in_every_language(closed_port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The C library translates its errors; the locale need not be installed here."""
    monkeypatch.setattr(os, "strerror", lambda _: "Verbindungsaufbau abgelehnt")
    host, port = closed_port.split(":")
    channel = Channel(1, host, int(port), SocketBuffers())
    channel.connect([(socket.AF_INET, (host, int(port)))])
    select.select([], [channel.fd], [], 10)
    with pytest.raises(Lost) as caught:
        channel.finish_connecting()
    assert caught.value.loss == REFUSED


def test_only_buffer_sizes_that_were_given_are_set() -> None:
    settings = ConnectionSettings({"bootstrap.servers": "localhost:9092", "send.buffer.bytes": 5000})
    buffers = SocketBuffers.of(settings, ["bootstrap.servers", "send.buffer.bytes"])
    assert (buffers.send_bytes, buffers.receive_bytes) == (5000, -1)


@pytest.mark.parametrize("asked_for", [20_000, 50_000])
def test_buffers_have_the_size_that_was_asked_for(
    kafka_cluster: ottla.Cluster, kafka_topic: str, asked_for: int
) -> None:
    """Linux doubles what it is asked for, to have room for its own books."""
    given = {"send_buffer_bytes": asked_for, "receive_buffer_bytes": asked_for + 1000}
    with ottla.Producer(kafka_cluster.bootstrap_servers, **given) as producer:
        producer.send(kafka_topic, b"x").result(30)
        sockets = [channel.sock for channel in list(producer._driver.loop._channels.values()) if channel.connected]
        assert sockets
        for each in sockets:
            sizes = [each.getsockopt(socket.SOL_SOCKET, of) for of in (socket.SO_SNDBUF, socket.SO_RCVBUF)]
            assert sizes in ([asked_for, asked_for + 1000], [2 * asked_for, 2 * asked_for + 2000])


def test_answers_before_an_impossible_frame_are_passed_on(line: Line) -> None:
    line.ask(7, 8)
    line.broker.sendall(answer(7) + answer(8) + b"\x7f\xff\xff\xff")
    answers, loss = line.pull()
    assert [correlation_id for correlation_id, _ in answers] == [7, 8]
    assert loss is not None
    assert "sent a frame that cannot be" in loss.detail


def test_the_refusal_of_a_broker_that_is_older_is_read(line: Line) -> None:
    line.ask(7)
    refusal = ApiVersionsResponse(error_code=35)
    line.broker.sendall(b"".join(encode_response(7, refusal, 0)))
    assert line.pull() == ([(7, refusal)], None)


def test_what_a_broker_said_before_it_hung_up_is_said_to_everyone_who_asks(papers: Papers) -> None:
    """The request that is sent next meets it, and so does who reads before the connection is given up."""
    there = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    there.load_cert_chain(papers.server)
    there.load_verify_locations(papers.ca)
    there.verify_mode = ssl.CERT_REQUIRED
    here = ssl.create_default_context(cafile=str(papers.ca))
    here.load_cert_chain(papers.untrusted)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = TlsSocket(socket.create_connection(listener.getsockname()), here, "localhost")
        broker = there.wrap_socket(listener.accept()[0], server_side=True, do_handshake_on_connect=False)
    with ThreadPoolExecutor(1) as other, broker:
        refused = other.submit(broker.do_handshake)
        assert client.shake_hands() == 0
        assert isinstance(refused.exception(10), ssl.SSLError)
    # The end has come: what it had not read of ours makes it a reset.
    with pytest.raises(Lost, match="does not know who issued"):
        client.sendmsg([b"a request"])
    for _ in range(2):
        with pytest.raises(Lost, match="does not know who issued"):
            client.recv_into(memoryview(bytearray(9)))
    client.close()
