"""What is decided without asking anybody: reading logs, telling transactions apart, choosing ids, reading records."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ottla
from ottla.client.transaction_admin import ListedTransaction, TransactionDescription
from ottla.producer.transaction_states import TransactionIdentity
from ottla.records.plain import Record, encode_batch
from ottla.sink.batch import Attempt, BatchId, Entry, Span, Totals
from ottla.sink.decision import Decision, decode, encode
from ottla.sink.identities import (
    SLOTS,
    driver_id,
    is_free,
    prefix_of,
    task_transactional_id,
    ticket_id,
)
from ottla.sink.receipt import Written, decode_receipt, encode_receipt
from ottla.sink.sweep import fates, sweep, to_describe
from ottla.sink.transaction_log import Fate, TransactionLog

KEY = b"orders"
COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"


class Log:
    """A partition being written by transactional producers."""

    def __init__(self) -> None:
        self.stored = b""
        self.end = 0

    def data(self, producer_id: int, value: bytes, *, key: bytes = KEY, epoch: int = 0, plain: bool = False) -> int:
        self._append(Record(self.end, 1, key, value), producer_id, epoch, plain=plain)
        return self.end - 1

    def marker(self, producer_id: int, kind: bytes, epoch: int = 1) -> None:
        self._append(Record(self.end, 1, kind, b"\0\0\0\0\0\0"), producer_id, epoch, is_control=True)

    def _append(self, record: Record, producer_id: int, epoch: int, *, plain: bool = False, is_control: bool = False):  # type: ignore[no-untyped-def]
        self.stored += encode_batch(
            [record],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=-1 if is_control else 0,
            is_transactional=not plain,
            is_control=is_control,
        )
        self.end += 1

    def read(self) -> TransactionLog:
        log = TransactionLog(lambda record: record.key == KEY)
        log.take(self.stored)
        return log


def value_of(log: TransactionLog) -> bytes | None:
    last = log.last_committed
    return None if last is None else last.record.value


class TestReading:
    def test_a_commit_marker_decides_and_nothing_else(self) -> None:
        log = Log()
        assert value_of(log.read()) is None
        log.data(1, b"one")
        assert value_of(log.read()) is None
        assert [each.fate for each in log.read().open] == [Fate.OPEN]
        log.marker(1, COMMIT)
        assert value_of(log.read()) == b"one"
        log.data(1, b"two", epoch=1)
        log.marker(1, ABORT, epoch=2)
        assert value_of(log.read()) == b"one"
        assert log.read().open == []

    def test_others_markers_and_keys_and_plain_records_count_for_nothing(self) -> None:
        log = Log()
        log.data(1, b"ours")
        log.data(2, b"theirs", key=b"orders-2")
        log.data(3, b"of another producer", plain=True)
        log.marker(2, COMMIT)
        assert value_of(log.read()) is None
        log.marker(1, COMMIT)
        assert value_of(log.read()) == b"ours"

    def test_an_open_transaction_of_another_sink_hides_nothing(self) -> None:
        log = Log()
        log.data(2, b"theirs, for ever open", key=b"slow")
        log.data(1, b"ours")
        log.marker(1, COMMIT)
        assert value_of(log.read()) == b"ours"

    def test_what_was_read_before_is_passed_over(self) -> None:
        log = Log()
        log.data(1, b"one")
        log.marker(1, COMMIT)
        read = log.read()
        read.forget_old()
        log.data(1, b"two", epoch=1)
        log.marker(1, COMMIT, epoch=2)
        read.take(log.stored)
        assert value_of(read) == b"two"
        assert read.next_offset == log.end
        assert len(read.settled) == 2

    @given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["data", "commit", "abort"])), max_size=30))
    def test_any_interleaving_reads_as_each_producer_meant_it(self, steps: list[tuple[int, str]]) -> None:
        log, expected = Log(), None
        opened: dict[int, bytes] = {}
        for number, (producer_id, step) in enumerate(steps):
            if step == "data":
                opened[producer_id] = b"%d" % number
                log.data(producer_id, b"%d" % number)
            else:
                value = opened.pop(producer_id, None)
                if value is not None and step == "commit":
                    expected = value
                log.marker(producer_id, COMMIT if step == "commit" else ABORT)
        assert value_of(log.read()) == expected
        assert len({each.producer_id for each in log.read().open}) == len(opened)


def identity(name: str, producer_id: int = 1, epoch: int = 0) -> TransactionIdentity:
    return TransactionIdentity(name, producer_id, epoch)


def entry(number: int, receipt_offset: int = 0, **more: object) -> Entry:
    return Entry(number, identity(f"t{number}", number), Totals(1, 1), receipt_offset)._replace(**more)  # type: ignore[arg-type]


def decision(*entries: Entry, **more: object) -> Decision:
    made = Decision("orders", BatchId("q", 1), Totals(1, 1), 3, entries, identity("driver", 9), 0)
    return made._replace(**more)  # type: ignore[arg-type]


def described(of: TransactionIdentity, state: str, **more: object) -> TransactionDescription:
    told = {"timeout_ms": 1000, "started_ms": 1, "partitions": (), "coordinator_id": 1, **more}
    return TransactionDescription(*of, state, **told)  # type: ignore[arg-type]


def listed(of: TransactionIdentity, state: str) -> ListedTransaction:
    return ListedTransaction(of.transactional_id, of.producer_id, state, 1)


class TestSweeping:
    def test_what_is_decided_is_committed_and_what_is_not_is_aborted(self) -> None:
        ours, stray = entry(1), identity("t2", 2)
        found = sweep({"t1": described(ours.identity, "Ongoing"), "t2": described(stray, "Ongoing")}, decision(ours))
        assert found == ((ours,), (stray,), (), ())

    def test_what_is_not_open_is_looked_up(self) -> None:
        ours = entry(1)
        assert sweep({}, decision(ours)).doubtful == (ours,)
        assert sweep({"t1": described(ours.identity, "Empty")}, decision(ours)).doubtful == (ours,)

    def test_an_id_that_was_taken_again_is_looked_up_and_the_new_transaction_aborted(self) -> None:
        ours = entry(1)
        newer = ours.identity._replace(producer_epoch=5)
        found = sweep({"t1": described(newer, "Ongoing")}, decision(ours))
        assert found == ((), (newer,), (ours,), ())

    def test_what_was_known_to_have_landed_is_left_alone(self) -> None:
        settled = decision(entry(1, landed=True), entry(2, lost=True))
        assert sweep({}, settled) == ((), (), (), ())

    def test_identities_without_a_transaction_are_told(self) -> None:
        idle = identity("t2", 2)
        assert sweep({"t2": described(idle, "Empty")}, None).idle == (idle,)

    def test_epochs_are_asked_for_where_they_matter(self) -> None:
        all_states = ("Ongoing", "Empty", "CompleteCommit", "PrepareAbort")
        names = [listed(identity(state), state) for state in all_states]
        names.append(listed(identity(ticket_id(prefix_of("orders"), 17, 0)), "Empty"))
        assert to_describe([*names, listed(identity("driver"), "Ongoing")], "driver") == ["Ongoing", "Empty"]


class TestFates:
    def test_the_receipt_of_the_very_transaction_tells(self) -> None:
        log = Log()
        offsets = {name: log.data(number, b"", epoch=3) for number, name in enumerate(("kept", "lost", "open"))}
        log.marker(0, COMMIT, epoch=4)
        log.marker(1, ABORT, epoch=4)
        entries = [entry(n, offset, identity=identity("t", n, 3)) for n, offset in enumerate(offsets.values())]
        found = fates(entries, log.read())
        assert [found[offset] for offset in offsets.values()] == [Fate.COMMITTED, Fate.ABORTED, Fate.OPEN]
        other_epoch = entry(0, offsets["kept"], identity=identity("t", 0, 2))
        assert fates([other_epoch, entry(7, 99)], log.read()) == {offsets["kept"]: None}

    def test_a_receipt_that_compaction_has_taken_was_aborted_and_one_that_was_deleted_tells_nothing(self) -> None:
        log = Log()
        gone = log.end
        log.end += 1
        kept = log.data(0, b"", epoch=3)
        log.marker(0, COMMIT, epoch=4)
        entries = [entry(1, gone), entry(2, kept, identity=identity("t", 0, 3))]
        assert fates(entries, log.read()) == {gone: Fate.ABORTED, kept: Fate.COMMITTED}
        trimmed = log.read()
        trimmed.first_offset = kept
        assert fates(entries, trimmed) == {gone: None, kept: Fate.COMMITTED}


class TestIdentities:
    @given(st.text(min_size=1), st.text(min_size=1))
    def test_no_sinks_prefix_begins_another_ones(self, one: str, other: str) -> None:
        if one != other:
            assert not prefix_of(other).startswith(prefix_of(one))
            assert not ticket_id(prefix_of(other), 0, 0).startswith(prefix_of(one))

    def test_names_that_begin_alike(self) -> None:
        assert driver_id("orders") == "ottla-sink-6-orders/driver"
        assert ticket_id(prefix_of("orders"), 17, 0) == "ottla-sink-6-orders/17/0/turn"
        assert task_transactional_id(identity("ottla-sink-6-orders/17/0/turn", 5, 6)) == "ottla-sink-6-orders/17/0/2"
        assert ticket_id(prefix_of("orders", "own"), 17, 0) == "ottla-sink-6-orders@own/17/0/turn"
        assert not driver_id("orders-2").startswith(prefix_of("orders"))
        assert not driver_id("orders/driver").startswith(prefix_of("orders"))

    def test_attempts_share_an_id_only_where_as_many_tickets_lie_between_as_there_are_slots(self) -> None:
        ids = [task_transactional_id(identity(ticket_id(prefix_of("orders"), 17, 0), 5, epoch)) for epoch in range(9)]
        assert all(len({*ids[at : at + SLOTS]}) == SLOTS for at in range(9 - SLOTS))
        assert len({*ids}) == SLOTS
        assert not {*ids} & {
            task_transactional_id(identity(ticket_id(prefix_of("orders"), *other), 5, epoch))
            for other in ((17, 1), (1, 0), (0, 17))
            for epoch in range(SLOTS)
        }

    @pytest.mark.parametrize(
        ("state", "free"),
        [
            ("CompleteCommit", True),
            ("CompleteAbort", True),
            ("Ongoing", False),
            ("PrepareCommit", False),
            ("Empty", False),
        ],
    )
    def test_an_id_that_may_have_an_owner_is_not_free(self, state: str, free: bool) -> None:
        assert is_free(described(identity("t", 4, 7), state)) is free
        assert not is_free(described(identity("t", 4, 32_767), state))

    def test_confirmed_tickets_lead_to_all_slots(self) -> None:
        tickets = [identity(ticket_id(prefix_of("orders"), 17, 0), 5, epoch) for epoch in range(0, 2 * SLOTS, 2)]
        assert len({task_transactional_id(ticket, 60_000) for ticket in tickets}) == SLOTS

    def test_an_id_that_does_not_exist_is_free(self) -> None:
        assert is_free(None)

    def test_an_id_whose_epochs_are_used_up_is_not_free(self) -> None:
        # A timeout leaves it so, and Kafka could not end a transaction of this epoch.
        assert is_free(described(identity("t", 4, 32_766), "CompleteAbort"))
        assert not is_free(described(identity("t", 4, 32_767), "CompleteAbort"))


class TestRecords:
    def test_a_decision_is_read_as_it_was_written(self) -> None:
        entries = entry(0, 5), entry(2, 6, landed=True), entry(3, 7, lost=True)
        totals = Totals(6, (1 << 64) - 1)
        made = decision(*entries, totals=totals, run_id="r", differed=2, loss_accepted=True)
        assert decode(encode(made)) == made

    def test_a_receipt_tells_which_offsets_were_written(self) -> None:
        spans = (Span("t", 0, 3, 9, 5), Span("t-ü", 2, 0, 0, 1))
        value = encode_receipt(BatchId("q", 1), Attempt(0, 0), entry(0), spans)
        assert decode_receipt(value) == Written(spans)
        assert json.loads(value)["rows"] == entry(0).totals.rows

    def test_a_receipt_has_a_bound_however_many_partitions_were_written(self) -> None:
        spans = tuple(Span("a-topic-with-a-long-name" * 4, number, 1 << 40, 1 << 40, 1) for number in range(10_000))
        value = encode_receipt(BatchId("q", 1), Attempt(0, 0), entry(0), spans)
        assert len(value) < 20_000
        written = decode_receipt(value)
        assert 100 < len(written.spans) == 10_000 - written.left_out
        assert written.spans == spans[: len(written.spans)]

    @pytest.mark.parametrize("value", [b"", b"x", b"[]", b"{}", b'{"version": 1}'])
    def test_what_is_no_decision_is_told_so(self, value: bytes) -> None:
        with pytest.raises(ottla.OttlaError, match="no decision of a sink"):
            decode(value)

    def test_a_decision_of_a_newer_version_is_told_so(self) -> None:
        with pytest.raises(ottla.OttlaError, match="has format 2, which this version of ottla does not know"):
            decode(b'{"version": 2}')

    def test_totals_do_not_depend_on_order(self) -> None:
        one, other = Totals(1, (1 << 64) - 1), Totals(2, 5)
        assert one.plus(other) == other.plus(one) == Totals(3, 4)
