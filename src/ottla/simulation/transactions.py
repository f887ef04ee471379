"""The transaction calls of a simulated producer; simulated time passes while they wait.

`client/transaction_verbs.py` does the same with threads: the gate, one answer per call, and a commit or abort without
an answer, which the same call asks for again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ottla.errors import OttlaError, TransactionMisuse, TransactionUnfinished
from ottla.producer.events import (
    BeginTransaction,
    CommitOffsets,
    EndTransaction,
    InitializeTransactions,
    TransactionAnswered,
    TransactionChanged,
)
from ottla.reader.events import Fetched
from ottla.records.plain import Record, decode_batches

if TYPE_CHECKING:
    from ottla.simulation.clients import SimulatedProducer
    from ottla.simulation.world import World

# Each step: how long to wait at most in microseconds, and for which condition.
Steps = Iterator[tuple[int, Callable[[], bool]]]


def committed_only(fetched: list[Fetched]) -> list[Record]:
    """The committed records of one partition's buffers: aborted ones are left out, as every client does."""
    kept: list[Record] = []
    aborted: dict[int, None] = {}
    for buffer in fetched:
        begun = sorted((first_offset, producer_id) for producer_id, first_offset in buffer.aborted_transactions)
        for header, records in decode_batches(buffer.records):
            while begun and begun[0][0] <= header.last_offset:
                aborted[begun.pop(0)[1]] = None
            if header.is_control:
                aborted.pop(header.producer_id, None)
            elif not (header.is_transactional and header.producer_id in aborted):
                kept += [record for record in records if record.offset >= buffer.fetch_offset]
    return kept


class SimulatedTransactions:
    """Begins and ends transactions of one simulated producer; errors are those of `Producer`."""

    def __init__(self, producer: SimulatedProducer, world: World) -> None:
        self._producer = producer
        self._world = world
        self._tokens = 0
        self._answers: dict[int, OttlaError | None] = {}
        self._unheard: tuple[bool | None, int] | None = None

    def begin(self) -> None:
        """As `begin_transaction`, after `init_transactions` if that is needed."""
        self._let_time_pass(self.begin_steps())

    def send_offsets(self, offsets: Mapping[tuple[str, int], int], group_id: str) -> None:
        """As `send_offsets_to_transaction`."""
        self._let_time_pass(self.send_offsets_steps(offsets, group_id))

    def end(self, committed: bool | None) -> None:
        """Commit, abort or (None) prepare."""
        self._let_time_pass(self.end_steps(committed))

    # The same calls as `Steps`, for callers that let time pass themselves.

    def begin_steps(self) -> Steps:
        """`begin`, step by step."""
        self._check(None)
        if not self._producer.core.transactions_ready:
            yield from self._wait(self._ask(InitializeTransactions), "init_transactions")
        yield from self._wait(self._ask(BeginTransaction), "begin_transaction")

    def send_offsets_steps(self, offsets: Mapping[tuple[str, int], int], group_id: str) -> Steps:
        """`send_offsets`, step by step."""
        self._check(None)
        rows = tuple((topic, partition, offset, -1, "") for (topic, partition), offset in offsets.items())
        yield from self._wait(self._ask(CommitOffsets, group_id, rows), "send_offsets_to_transaction")

    def end_steps(self, committed: bool | None) -> Steps:
        """`end`, step by step."""
        self._check((committed,))
        if self._unheard is None:
            self._tokens += 1
            self._producer.gate.begin_to_end(self._tokens, committed)
            self._producer.feed(flushes=True)
            self._unheard = committed, self._tokens
            self._producer.deliver(EndTransaction(self._tokens, committed))
        yield from self._wait(self._unheard[1], f"end({committed})")

    def perform(self, output: TransactionAnswered | TransactionChanged) -> None:
        """Take in an output of the core."""
        if isinstance(output, TransactionChanged):
            self._producer.gate.transaction_changed(output.error)
        else:
            self._producer.gate.answered(output.token)
            self._answers[output.token] = output.error

    def _check(self, ending: tuple[bool | None] | None) -> None:
        if self._unheard is not None and ending != (self._unheard[0],):
            raise TransactionMisuse("the end before has no answer yet")

    def _ask(self, kind: Any, *details: Any) -> int:
        self._tokens += 1
        self._producer.deliver(kind(self._tokens, *details))
        return self._tokens

    def _let_time_pass(self, steps: Steps) -> None:
        for limit_us, reached in steps:
            self._world.run_until(reached, limit_us=limit_us)

    def _wait(self, token: int, name: str) -> Steps:
        yield self._producer.settings.max_block_ms * 1000, lambda: token in self._answers
        if token not in self._answers:
            raise TransactionUnfinished(f"{name} has no answer: {self._producer.core.transaction_problem()}")
        if self._unheard is not None and self._unheard[1] == token:
            self._unheard = None
        error = self._answers.pop(token)
        if error is not None:
            raise error
