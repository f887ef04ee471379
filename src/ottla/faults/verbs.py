"""Verbs for faults: let something go wrong on purpose, and see whether it did.

One verb per fault. Each returns a `FaultInForce`, which is in force at once and until `heal()`, or to the end of its
`with` block. The verbs here apply to requests and to the connections of clients: clusters and proxies have them. They
take the keywords of `Which`; counting is over the requests that match, of all brokers, and a retry is one more
request.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar

from ottla.errors import ConfigError, OttlaError, UserMistake
from ottla.faults import fault as kinds
from ottla.faults.effect import not_fired_any_more
from ottla.faults.fields import REQUEST, WAIT

if TYPE_CHECKING:
    from typing import Unpack


F = TypeVar("F", bound="FaultInForce")
V = TypeVar("V", bound="Callable[..., FaultInForce]")

# How long whoever carries faults out may take to answer once it knows.
_ANSWER_S = 30.0


class Which(TypedDict, total=False):
    """Which requests a fault applies to; without any of these every Produce request.

    `topic`, `partition`: requests with this topic or partition. `broker_id`: requests that this broker handles. `api`:
    the kind of request ("Produce", "Fetch", "Metadata", ...). Of these requests: `nth`, only the n-th, from 1; or
    `every`, each k-th; or `probability`, each with this chance, drawn from `seed` (0). `times`: it fires so often at
    most. `after_ms`, `duration_ms`: it fires only from so long after now, and only for so long.
    """

    topic: str | None
    partition: int | None
    nth: int | None
    every: int | None
    times: int | None
    probability: float | None
    seed: int | None
    broker_id: int | None
    api: str
    after_ms: int | None
    duration_ms: int | None


def of_requests(verb: V) -> V:
    """The verb, whose `help()` names the keywords of `Which` one by one and says what they mean."""
    signature = inspect.signature(verb)
    own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    keywords = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_UNLESS_GIVEN.get(name), annotation=kind)
        for name, kind in _KEYWORDS.items()
    ]
    verb.__signature__ = signature.replace(parameters=[*own, *keywords])  # type: ignore[attr-defined]
    verb.__doc__ = f"{inspect.cleandoc(verb.__doc__ or '')}\n\n{inspect.cleandoc(Which.__doc__ or '')}"
    return verb


_UNLESS_GIVEN = {"api": "Produce"}
_KEYWORDS = {name: kind.__forward_arg__ for name, kind in Which.__annotations__.items()}


class FaultInForce:
    """A fault in force; its `with` block heals it at the end. `what` is its kind with its fields."""

    def __init__(self, ask: Callable[..., Any], what: kinds.Fault) -> None:
        self.what = what
        self._ask = ask
        self._last: dict[str, int] | None = None
        self._in_block = False
        self._fault_id: int = ask("add_fault", fault=what.to_dict())

    @property
    def id(self) -> int:
        """Its number, from 1."""
        return self._fault_id

    @property
    def is_over(self) -> bool:
        """Whether it was healed."""
        return self._last is not None

    @property
    def fired(self) -> int:
        """How often it has really fired; still known when it is healed, or the cluster is closed."""
        return self.counts()["fired"]

    @property
    def matched(self) -> int:
        """How many requests matched it while it was in force, whether it fired or not."""
        return self.counts()["matched"]

    def counts(self) -> dict[str, int]:
        """`fired` and `matched` of one moment."""
        if self._last is not None:
            return self._last
        counts: dict[str, int] = self._ask("count_fault", fault_id=self._fault_id)
        return counts

    def await_fired(self, count: int = 1, *, timeout: float = 60) -> int:
        """Wait until it has fired so often, and return how often it has; OttlaError after `timeout` seconds.

        For faults that apply to requests.
        """
        if not WAIT.holds(timeout):
            raise ConfigError(f"timeout={timeout!r} must be {WAIT.words}.")
        if type(count) is not int or count < 1:
            raise ConfigError(f"count={count!r} must be an integer of at least 1; how long to wait is timeout=.")
        if self._last is None:
            if not self.what.applies_to_requests:
                told = f"await_fired is for faults that apply to requests; {self.what.kind} does not"
                raise UserMistake(f"{told}: look at `fired`.")
            fields = {"fault_id": self._fault_id, "count": count, "patience_s": timeout}
            counts: dict[str, int] = self._ask("await_fault", timeout + _ANSWER_S, **fields)
            return counts["fired"]
        if self.fired < count:
            raise not_fired_any_more(self.what, self.fired)
        return self.fired

    def heal(self) -> None:
        """End the fault: affected brokers run again, its counts stay readable. Healing twice is allowed."""
        if self._last is None:
            self._last = self._ask("heal_fault", fault_id=self._fault_id)

    def remember_counts(self) -> None:
        """Read the counts for the last time."""
        self._last = self.counts()

    def __enter__(self) -> Self:
        made = f"faults.{self.what.kind}(...)"
        if self.is_over:
            raise UserMistake(f"the fault {self.what!r} is over: make a new one with {made}.")
        if self._in_block:
            # The end of the inner block would heal it, and the rest of the outer one would run without it.
            raise UserMistake(f"the fault {self.what!r} is in a `with` block already: make another with {made}.")
        self._in_block = True
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._in_block = False
        try:
            self.heal()
        except OttlaError as unhealed:
            if error is None:
                raise
            # Why the block was left says more than that its brokers are gone.
            error.add_note(f"the fault {self.what!r} could not be healed: {unhealed}")

    def __repr__(self) -> str:
        return f"<FaultInForce {self.what.kind}({self.what.shown()})>"


class Hold(FaultInForce):
    """A fault that holds requests, or their answers, back: a barrier for tests."""

    def await_reached(self, count: int = 1, *, timeout: float = 60) -> int:
        """Wait until so many are held, and return how many; OttlaError after `timeout` seconds.

        A request that the client has given up stays held, and its retry is one more.
        """
        return self.await_fired(count, timeout=timeout)

    def release(self) -> None:
        """Let all that is held go on, and hold nothing more: the same as `heal`."""
        self.heal()


class Verbs:
    """The faults of one cluster or proxy; every verb raises ConfigError for what makes no sense."""

    # Those that it can carry out.
    known_kinds: tuple[str, ...] = kinds.KINDS
    # What the faults are in, as errors say it.
    _where = "here"

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask
        self._made: dict[int, FaultInForce] = {}

    def add(self, what: kinds.Fault) -> FaultInForce:
        """Put a fault in force that `ottla.faults.fault.make_fault` has made: `make_fault("lose_ack", nth=1)`."""
        if not isinstance(what, kinds.Fault):
            raise ConfigError(
                f"{what!r} is no fault: call its own method, such as lose_ack(nth=1), or make one with "
                "ottla.faults.fault.make_fault."
            )
        return self._made_known(FaultInForce(self._ask, what))

    def find(self, fault_id: int) -> FaultInForce:
        """The fault with this id, healed or not; ConfigError where there is none."""
        found = self._made.get(fault_id)
        if found is None:
            raise ConfigError(f"there is no fault {fault_id!r} {self._where}.")
        return found

    def all(self) -> list[FaultInForce]:
        """All faults, healed or not, in the order in which they were made."""
        return list(self._made.values())

    def in_force(self) -> list[FaultInForce]:
        """The faults that were not healed yet, in the order in which they were made."""
        return [fault for fault in list(self._made.values()) if not fault.is_over]

    def heal(self) -> list[FaultInForce]:
        """Heal all faults that are in force, and return them; one that cannot be healed does not keep the others."""
        healed = self.in_force()
        with contextlib.ExitStack() as each_in_any_case:
            for fault in reversed(healed):
                each_in_any_case.callback(fault.heal)
        return healed

    # Requests, before anything is appended.

    @of_requests
    def refuse(self, *, error: int | str | None = None, **which: Unpack[Which]) -> FaultInForce:
        """Append nothing, and answer with this error, by number or name (None: NOT_ENOUGH_REPLICAS)."""
        return self._at_requests("refuse", which, error=error)

    @of_requests
    def lose_request(self, **which: Unpack[Which]) -> FaultInForce:
        """Throw the request away before anything is appended, and cut its connection."""
        return self._at_requests("lose_request", which)

    @of_requests
    def drop_request(self, **which: Unpack[Which]) -> FaultInForce:
        """Throw the request away. Its connection stays open and silent until the client gives it up."""
        return self._at_requests("drop_request", which)

    @of_requests
    def delay_request(self, *, delay_ms: int, **which: Unpack[Which]) -> FaultInForce:
        """Handle the request `delay_ms` late, even if the client has given it up and sent it again."""
        return self._at_requests("delay_request", which, delay_ms=delay_ms)

    # Requests, after the append.

    @of_requests
    def lose_ack(self, **which: Unpack[Which]) -> FaultInForce:
        """Append the records, then cut the connection instead of answering."""
        return self._at_requests("lose_ack", which)

    @of_requests
    def drop_ack(self, **which: Unpack[Which]) -> FaultInForce:
        """Append the records and answer nothing. The connection stays open and silent."""
        return self._at_requests("drop_ack", which)

    @of_requests
    def delay_ack(self, *, delay_ms: int, **which: Unpack[Which]) -> FaultInForce:
        """Append the records, and send the answer `delay_ms` late."""
        return self._at_requests("delay_ack", which, delay_ms=delay_ms)

    @of_requests
    def refuse_after_append(self, *, error: int | str | None = None, **which: Unpack[Which]) -> FaultInForce:
        """Append the records; answer with this error, by number or name (None: NOT_ENOUGH_REPLICAS_AFTER_APPEND)."""
        return self._at_requests("refuse_after_append", which, error=error)

    @of_requests
    def redeliver(self, *, delay_ms: int | None = None, **which: Unpack[Which]) -> FaultInForce:
        """Answer the request, and handle it once more `delay_ms` later, as if it came on a connection of its own."""
        return self._at_requests("redeliver", which, delay_ms=delay_ms)

    @of_requests
    def hold(self, *, moment: str = REQUEST, **which: Unpack[Which]) -> Hold:
        """Hold the request (`moment="request"`: nothing is stored yet) or its answer ("ack") until `release()`."""
        return self._made_known(Hold(self._ask, kinds.make_fault("hold", moment=moment, **which)))

    # Connections of clients.

    def unplug(self, broker_id: int, *, client_id: str | None = None) -> FaultInForce:
        """Make all connections between this broker and its clients, or one client, silent; healed, they go on."""
        return self._impose("unplug", broker_id=broker_id, client_id=client_id)

    def half_open(self, broker_id: int | None = None, *, client_id: str | None = None) -> FaultInForce:
        """Make the connections that clients have now silent for good; new connections work.

        `broker_id`, `client_id`: only the connections to this broker, of this client.
        """
        return self._impose("half_open", broker_id=broker_id, client_id=client_id)

    def remember_counts(self) -> None:
        """Read the counts of all faults for the last time, as far as they can still be asked for."""
        for fault in list(self._made.values()):
            try:
                fault.remember_counts()
            except OttlaError:
                return
        self._made.clear()

    def _at_requests(self, kind: str, which: Which, **more: Any) -> FaultInForce:
        return self._made_known(FaultInForce(self._ask, kinds.make_fault(kind, **which, **more)))

    def _impose(self, kind: str, **fields: Any) -> FaultInForce:
        return self._made_known(FaultInForce(self._ask, kinds.make_fault(kind, **fields)))

    def _made_known(self, fault: F) -> F:
        self._made[fault.id] = fault
        return fault
