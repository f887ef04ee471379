"""The bytes of a connection become exchanges: however they are cut, lost, late or foreign."""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.tap.talk import (
    answered,
    asked,
    batch,
    conversation,
    exchanges,
    heard,
    produce,
    produced,
    remarks,
)

from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.records.batch_header import CRC_BEGIN
from ottla.tap.exchange import Exchange, Outcome, Remark, RemarkKind, Way

REQUEST, RESPONSE = Way.TO_BROKER, Way.TO_CLIENT


def test_a_produce_request_and_its_answer_are_one_exchange() -> None:
    records = batch(3, producer_id=7, producer_epoch=2, base_sequence=40)
    request, response = asked(produce(records, partition=4), 9), answered(produced(1200, partition=4), 9)
    (seen,) = exchanges(heard(conversation(), (REQUEST, request), (RESPONSE, response)))
    assert (seen.api, seen.version, seen.client_id, seen.acks, seen.outcome) == (
        "Produce",
        9,
        "app",
        -1,
        Outcome.ANSWERED,
    )
    assert (seen.request_bytes, seen.response_bytes, seen.latency_us) == (len(request), len(response), 1_000)
    (part,) = seen.partitions
    assert (part.topic, part.partition, part.offset, part.error) == ("orders", 4, 1200, None)
    assert (part.record_count, part.record_bytes) == (3, len(records))
    (only,) = part.batches
    assert (only.producer_id, only.producer_epoch, only.base_sequence, only.is_intact) == (7, 2, 40, True)
    assert only.sha256 == sha256(records[CRC_BEGIN:]).hexdigest()
    assert seen.request_frame is None
    assert seen.response_frame is None


def test_a_damaged_batch_is_told() -> None:
    records = bytearray(batch())
    records[-1] ^= 1
    (seen,) = exchanges(heard(conversation(), (REQUEST, asked(produce(bytes(records)), 9))))
    assert seen.partitions[0].batches[0].is_intact is False


def test_hashes_are_left_out_where_nobody_wants_them() -> None:
    (seen,) = exchanges(heard(conversation(hashes=False), (REQUEST, asked(produce(batch()), 9))))
    (only,) = seen.partitions[0].batches
    assert (only.sha256, only.is_intact) == (None, None)


def test_errors_of_partitions_are_told_by_name() -> None:
    (seen,) = exchanges(
        heard(conversation(), (REQUEST, asked(produce(batch()), 9)), (RESPONSE, answered(produced(-1, 45), 9)))
    )
    assert seen.errors == ("OUT_OF_ORDER_SEQUENCE_NUMBER",)
    assert seen.partitions[0].offset is None


def test_no_answer_is_due_where_acks_are_zero() -> None:
    request = asked(produce(batch(), acks=0), 9)
    seen = heard(conversation(), (REQUEST, request), (REQUEST, request), end=False)
    assert [entry.outcome for entry in exchanges(seen)] == [Outcome.NOT_DUE, Outcome.NOT_DUE]


def test_answers_are_found_by_their_correlation_id() -> None:
    pieces = [(REQUEST, asked(produce(batch(), partition=number), 9, number)) for number in range(3)]
    pieces += [(RESPONSE, answered(produced(number, partition=number), 9, number)) for number in (1, 0)]
    seen = exchanges(heard(conversation(), *pieces))
    assert [(entry.correlation_id, entry.outcome) for entry in seen] == [
        (1, Outcome.ANSWERED),
        (0, Outcome.ANSWERED),
        (2, Outcome.UNANSWERED),
    ]


def test_an_answer_without_a_request_is_told() -> None:
    (seen,) = heard(conversation(), (RESPONSE, answered(MetadataResponse(), 9, 77)))
    assert isinstance(seen, Exchange)
    assert (seen.outcome, seen.correlation_id, seen.api) == (Outcome.UNASKED, 77, None)


def test_a_connection_that_ends_in_mid_frame_is_told() -> None:
    request = asked(produce(batch()), 9)
    (seen,) = heard(conversation(), (REQUEST, request[:30]))
    assert isinstance(seen, Remark)
    assert (seen.kind, seen.way, seen.size_bytes) == (RemarkKind.CUT_OFF, REQUEST, 30)
    assert seen.what == f"the connection ended 30 bytes into a frame of {len(request):,} bytes"


def test_an_answer_that_is_no_answer_is_told() -> None:
    request, wrong = asked(MetadataRequest(), 9, 5), (7).to_bytes(4) + (5).to_bytes(4) + b"\0\xff\xff"
    (seen,) = exchanges(heard(conversation(), (REQUEST, request), (RESPONSE, wrong)))
    assert seen.outcome is Outcome.ANSWERED
    assert seen.unread is not None
    assert seen.unread.startswith("the answer cannot be read: MetadataResponse version 9")


@pytest.mark.parametrize(
    ("api_key", "version", "name", "why"),
    [
        (0, 2, "Produce", "requests of this version are not decoded"),
        (3, 60, "Metadata", "requests of this version are not decoded"),
        (55, 0, "DescribeQuorum", "requests of this API are not decoded"),
    ],
)
def test_what_is_not_decoded_is_told_with_its_name(api_key: int, version: int, name: str, why: str) -> None:
    body = api_key.to_bytes(2) + version.to_bytes(2) + (9).to_bytes(4) + b"\0\3app" + b"anything"
    request, response = len(body).to_bytes(4) + body, (6).to_bytes(4) + (9).to_bytes(4) + b"\0\0"
    (seen,) = exchanges(heard(conversation(), (REQUEST, request), (RESPONSE, response)))
    assert (seen.api, seen.version, seen.unread, seen.outcome) == (name, version, why, Outcome.ANSWERED)


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-x\r\n", b"\0\0\0\x0a" + b"\x7f" * 10, b"\0\0\0\0"]
)
def test_bytes_that_are_no_kafka_are_told_once(data: bytes) -> None:
    first, rest = remarks(heard(conversation(), (REQUEST, data), (REQUEST, b"and more")))
    assert first.kind is rest.kind is RemarkKind.NOT_KAFKA
    assert first.what.startswith("not the Kafka protocol: ")
    assert rest.what == "8 more bytes were not read"


def test_tls_is_told_once_for_both_ways() -> None:
    hello = bytes.fromhex("16030100c8010000c4")
    seen = heard(conversation(), (REQUEST, hello), (RESPONSE, hello), (REQUEST, b"\x17\x03\x03secret"))
    assert [entry.kind for entry in remarks(seen)] == [RemarkKind.TLS] * 3
    assert remarks(seen)[0].what == "TLS: what is inside cannot be read"
    assert not exchanges(seen)


def test_bare_sasl_tokens_are_told_by_size_and_never_kept() -> None:
    token = b"\0alice\0wonderland"
    told = conversation(payloads=True)
    seen = heard(
        told,
        (REQUEST, asked(SaslHandshakeRequest(mechanism="PLAIN"), 0)),
        (RESPONSE, answered(SaslHandshakeResponse(mechanisms=["PLAIN"]), 0)),
        (REQUEST, len(token).to_bytes(4) + token),
        (RESPONSE, bytes(4)),
        (REQUEST, asked(MetadataRequest(), 9, 2)),
        (RESPONSE, answered(MetadataResponse(), 9, 2)),
    )
    assert [entry.api for entry in exchanges(seen)] == ["SaslHandshake", "Metadata"]
    assert [entry.kind for entry in remarks(seen)] == [RemarkKind.SASL_TOKEN] * 2
    assert "wonderland" not in repr(seen)


def test_frames_are_kept_where_asked_for_but_for_secrets() -> None:
    request, response = asked(MetadataRequest(), 9, 2), answered(MetadataResponse(), 9, 2)
    secret = SaslAuthenticateRequest(auth_bytes=b"\0alice\0wonderland")
    plain, hidden = exchanges(
        heard(
            conversation(payloads=True),
            (REQUEST, request),
            (RESPONSE, response),
            (REQUEST, asked(secret, 2, 3)),
            (RESPONSE, answered(SaslAuthenticateResponse(), 2, 3)),
        )
    )
    assert (plain.request_frame, plain.response_frame) == (request[4:], response[4:])
    assert (hidden.api, hidden.request_frame, hidden.response_frame) == ("SaslAuthenticate", None, None)
    assert "wonderland" not in repr(hidden)


def test_lost_bytes_within_a_frame_do_not_lose_the_next_one() -> None:
    first, second = asked(produce(batch(body=bytes(5000))), 9, 1), asked(MetadataRequest(), 9, 2)
    told = conversation()
    seen = told.receive(REQUEST, first[:100], 0)
    seen += told.lose(REQUEST, 4000, 0)
    seen += told.receive(REQUEST, first[4100:] + second, 0)
    seen += told.end()
    assert [entry.kind for entry in remarks(seen)] == [RemarkKind.LOST]
    assert [(entry.api, entry.unread) for entry in exchanges(seen)] == [
        ("Produce", f"{len(first) - 100:,} of its bytes were not captured"),
        ("Metadata", None),
    ]
    assert exchanges(seen)[0].request_bytes == len(first)


def test_lost_bytes_beyond_a_frame_are_passed_over_up_to_the_next_one_that_begins_a_packet() -> None:
    first, second = asked(produce(batch()), 9, 1), asked(MetadataRequest(), 9, 2)
    told = conversation()
    seen = told.receive(REQUEST, first[:100], 0)
    seen += told.lose(REQUEST, 10_000, 0)
    seen += told.receive(REQUEST, b"the middle of something", 0)
    seen += told.receive(REQUEST, second, 0)
    seen += told.receive(RESPONSE, answered(MetadataResponse(), 9, 2), 0)
    assert [entry.api for entry in exchanges(seen)] == ["Metadata"]
    assert [(entry.kind, entry.size_bytes) for entry in remarks(seen)] == [
        (RemarkKind.LOST, 10_000),
        (RemarkKind.BEGINNING_UNSEEN, 23),
    ]


def test_a_connection_whose_beginning_was_not_seen_is_read_from_its_first_frame() -> None:
    told = conversation(is_begun=False)
    seen = heard(
        told,
        (RESPONSE, b"the end of an answer"),
        (REQUEST, b"the end of a request"),
        (REQUEST, asked(MetadataRequest(), 9, 2)),
        (RESPONSE, answered(MetadataResponse(), 9, 2)),
    )
    assert [(entry.api, entry.outcome) for entry in exchanges(seen)] == [("Metadata", Outcome.ANSWERED)]
    assert [entry.kind for entry in remarks(seen)] == [RemarkKind.BEGINNING_UNSEEN] * 2


def test_whole_frames_may_be_given_in_place_of_bytes() -> None:
    request, response = asked(produce(batch()), 9), answered(produced(5), 9)
    told = conversation()
    seen = told.take_request(memoryview(request)[4:], 1_000_000)
    seen += told.take_response(memoryview(response)[4:], 1_001_000)
    assert seen == heard(conversation(), (REQUEST, request), (RESPONSE, response))


STREAMS = {
    REQUEST: asked(produce(batch()), 9, 1)
    + asked(MetadataRequest(), 12, 2)
    + asked(produce(batch(), acks=0), 3, 3)
    + asked(SaslHandshakeRequest(mechanism="PLAIN"), 0, 4)
    + b"\0\0\0\2ab"
    + asked(MetadataRequest(), 4, 5),
    RESPONSE: answered(produced(5), 9, 1)
    + answered(MetadataResponse(), 12, 2)
    + answered(SaslHandshakeResponse(), 0, 4)
    + b"\0\0\0\0"
    + answered(MetadataResponse(), 4, 5),
}


def in_pieces(way: Way, data: bytes, cuts: list[int]) -> list[tuple[Way, bytes]]:
    places = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    return [(way, data[begin:end]) for begin, end in pairwise(places)]


@given(st.lists(st.integers(0, 1 << 16), max_size=40), st.lists(st.integers(0, 1 << 16), max_size=40))
@example(list(range(400)), list(range(400)))
def test_any_split_of_the_bytes_gives_the_same_exchanges(request_cuts: list[int], response_cuts: list[int]) -> None:
    pieces = in_pieces(REQUEST, STREAMS[REQUEST], request_cuts) + in_pieces(RESPONSE, STREAMS[RESPONSE], response_cuts)
    told = conversation()
    seen = [entry for way, data in pieces for entry in told.receive(way, data, 7)] + told.end()
    whole = conversation()
    assert seen == [
        *whole.receive(REQUEST, STREAMS[REQUEST], 7),
        *whole.receive(RESPONSE, STREAMS[RESPONSE], 7),
        *whole.end(),
    ]
    assert not any(entry.unread for entry in exchanges(seen))


ANY_BYTES = st.one_of(
    st.binary(max_size=200),
    st.sampled_from(sorted(STREAMS.values())).flatmap(
        lambda data: st.tuples(st.integers(0, len(data)), st.integers(0, len(data))).map(
            lambda ends: data[min(ends) : max(ends)]
        )
    ),
)


@given(
    st.lists(st.tuples(st.sampled_from(Way), st.one_of(ANY_BYTES, st.integers(0, 5000))), max_size=12), st.booleans()
)
def test_whatever_passes_nothing_raises(pieces: list[tuple[Way, bytes | int]], is_begun: bool) -> None:
    told = conversation(is_begun=is_begun, payloads=True)
    for way, data in pieces:
        if isinstance(data, int):
            told.lose(way, data, 1)
        else:
            told.receive(way, data, 1)
    told.end()
