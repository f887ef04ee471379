"""What each error code leaves a producer to do, against the classes and the TransactionManager of Java's own.

One run of a JVM on a source file of its own: `java ErrorsOfKafka.java` with Kafka's jars on the class path. Where ours
differs, the reason stands here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ottla.producer.sender import STALE_METADATA
from ottla.producer.transaction_answers import Reaction, RequestKind, reaction_to
from ottla.protocol.error_codes import FATAL, ErrorCode, error_name, is_retriable

pytestmark = pytest.mark.kafka

_SOURCE = Path(__file__).with_name("ErrorsOfKafka.java")
CODES = [code for name, code in vars(ErrorCode).items() if name.isupper() and code]
# Fatal although Java would abort if Produce were answered so: no leader answers so, and who does makes it fatal there.
FATAL_ELSEWHERE = {
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "INITIALIZE",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "COMMIT_OFFSETS",
}
# Authentication in Java, too, but of requests for delegation tokens, which no producer makes.
NOT_A_PRODUCERS = {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}
# Stale metadata in Java, too, but never an answer to Produce.
NOT_OF_PRODUCE = {
    ErrorCode.NETWORK_EXCEPTION,  # a connection that breaks has metadata asked for by itself
    ErrorCode.LISTENER_NOT_FOUND,  # of Metadata
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,  # of ElectLeaders, as the next two
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    ErrorCode.ELECTION_NOT_NEEDED,
}
# Leaders and group coordinators do that by themselves in transactions of version 2.
NOT_ASKED = {(2, RequestKind.ADD_PARTITIONS), (2, RequestKind.ADD_OFFSETS)}
# (request, code) -> what ottla does where Java's producer does something else; why stands in transaction_answers.py.
OTHER_REACTIONS = {
    ("INITIALIZE", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED): Reaction.DENY,
    ("INITIALIZE", ErrorCode.CLUSTER_AUTHORIZATION_FAILED): Reaction.DENY,
    ("ADD_PARTITIONS", ErrorCode.OPERATION_NOT_ATTEMPTED): Reaction.AGAIN,
    ("ADD_PARTITIONS", ErrorCode.INVALID_PRODUCER_ID_MAPPING): Reaction.RENEW,
    ("ADD_OFFSETS", ErrorCode.INVALID_PRODUCER_ID_MAPPING): Reaction.RENEW,
    ("END", ErrorCode.INVALID_PRODUCER_ID_MAPPING): Reaction.RENEW,
    ("END", ErrorCode.INVALID_TXN_STATE): Reaction.GONE,
    ("END", ErrorCode.UNKNOWN_SERVER_ERROR): Reaction.AGAIN,
}


class Told(NamedTuple):
    """What Java says: code -> (name, classes of its exception), and what becomes of it.

    That is (version of transactions, request, code) -> (state, request that follows).
    """

    codes: dict[int, tuple[str, set[str]]]
    answers: dict[tuple[int, str, int], tuple[str, str]]

    def of(self, kind: str) -> set[int]:
        """The codes whose exception is of this class."""
        return {code for code, (_, classes) in self.codes.items() if kind in classes}


@pytest.fixture(scope="module")
def javas(java: Any) -> Told:
    told = Told({}, {})
    for line in java.run(str(_SOURCE)).decode().splitlines():
        what, *fields = line.split("|")
        if what == "code":
            told.codes[int(fields[0])] = fields[1], set(fields[2].split())
        elif what == "answer":
            told.answers[int(fields[0]), fields[1], int(fields[2])] = fields[3], fields[4]
    return told


def test_codes_and_names_are_javas(javas: Told) -> None:
    assert {code: name for code, (name, _) in javas.codes.items()} == {code: error_name(code) for code in CODES}


def test_what_is_retriable_is_retriable_in_java(javas: Told) -> None:
    retriable = javas.of("RetriableException")
    assert len(retriable) > 30
    assert {code for code in CODES if is_retriable(code)} == retriable


def test_what_is_fatal_is_authentication_or_ends_javas_producer(javas: Told) -> None:
    ends = {code for code in CODES if javas.answers[2, "PRODUCE", code][0] == "FATAL_ERROR"}
    assert ErrorCode.PRODUCER_FENCED in ends
    for code, request in FATAL_ELSEWHERE.items():
        assert javas.answers[2, request, code][0] == "FATAL_ERROR"
    expected = (ends | javas.of("AuthenticationException") | FATAL_ELSEWHERE.keys()) - NOT_A_PRODUCERS
    assert {code for code in CODES if code in FATAL} == expected


def test_all_else_only_aborts_a_transaction_of_javas_producer(javas: Told) -> None:
    for code in CODES:
        if code not in FATAL:
            assert javas.answers[2, "PRODUCE", code][0] == "ABORTABLE_ERROR", error_name(code)


def test_answers_to_produce_that_have_metadata_asked_for_are_javas(javas: Told) -> None:
    assert javas.of("InvalidMetadataException") - NOT_OF_PRODUCE == STALE_METADATA


# What Java's producer does, as the reactions of ours that come to the same.
_SAME = {
    "FATAL_ERROR": (Reaction.BREAK, Reaction.FENCED),
    "ABORTABLE_ERROR": (Reaction.ABORT, Reaction.RENEW),
    "again": (Reaction.AGAIN,),
    "look": (Reaction.LOOK,),
}


@pytest.mark.parametrize(
    ("version", "request_kind"),
    [(version, kind) for version in (1, 2) for kind in RequestKind if (version, kind) not in NOT_ASKED],
)
def test_answers_of_coordinators_are_taken_as_by_java(javas: Told, version: int, request_kind: RequestKind) -> None:
    name = request_kind.name
    differing = {}
    for code in CODES:
        state, following = javas.answers[version, name, code]
        if state == "UNCHANGED":
            assert following, f"Java does nothing at all after {error_name(code)}"
            state = "look" if following == "FindCoordinatorHandler" else "again"
        reaction = reaction_to(request_kind, code)
        if reaction not in _SAME[state]:
            differing[name, code] = reaction
    assert differing == {key: reaction for key, reaction in OTHER_REACTIONS.items() if key[0] == name}
