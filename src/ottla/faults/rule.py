"""What goes wrong, and for which requests: the vocabulary of faults that strike a request.

| kind | before or after the append | what happens |
|---|---|---|
| `refuse` | before | answered with `error`, nothing appended |
| `lose_request` | before | thrown away, connection cut |
| `drop_request` | before | thrown away, the connection stays open and says nothing more |
| `delay_request` | before | handled `delay_ms` late, even where its sender has gone by then |
| `refuse_after_append` | after | appended, answered with `error` all the same |
| `lose_ack` | after | appended, connection cut instead of an answer |
| `drop_ack` | after | appended, the connection stays open and says nothing more |
| `delay_ack` | after | appended, answered `delay_ms` late |
| `redeliver` | after | answered, and handled once more `delay_ms` later, on a connection of its own |
| `hold` | `moment` | it, or its answer, waits until the fault is healed |
| `kill`, `power_off`, `pause`, `cut_power` | `moment` | what becomes of the broker that handles it, or of all |

Moments of the last lines: "request" (nothing appended yet), "append" (in the leader's log, with no follower yet; not
for `hold`), "ack" (replicated as far as `acks` asks; the answer is not sent). A request that expects no answer keeps
its connection when it or its answer is lost.
"""

from __future__ import annotations

from ottla.errors import ConfigError
from ottla.faults.described import Described

CRASHES = ("kill", "power_off", "pause", "cut_power")
_TORN = ("power_off", "cut_power")
BEFORE_APPEND = ("lose_request", "drop_request", "delay_request", "refuse")
AFTER_APPEND = ("lose_ack", "drop_ack", "delay_ack", "refuse_after_append", "redeliver")
HOLD = "hold"
KINDS = (*BEFORE_APPEND, *AFTER_APPEND, HOLD, *CRASHES)
REQUEST, APPEND, ACK = MOMENTS = ("request", "append", "ack")
# At which moments a kind strikes that has a choice, and which of them where none is given.
_MOMENTS_OF = {HOLD: (REQUEST, ACK), **dict.fromkeys(CRASHES, MOMENTS)}
_DEFAULT_MOMENT = {HOLD: REQUEST, **dict.fromkeys(CRASHES, APPEND)}

NOT_ENOUGH_REPLICAS = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
_DEFAULT_ERROR = {"refuse": NOT_ENOUGH_REPLICAS, "refuse_after_append": NOT_ENOUGH_REPLICAS_AFTER_APPEND}
_DELAYED = ("delay_request", "delay_ack")
_MAY_BE_DELAYED = (*_DELAYED, "redeliver")
_INTEGERS = (
    ("nth", 1),
    ("every", 1),
    ("times", 1),
    ("partition", 0),
    ("delay_ms", 1),
    ("broker_id", 0),
    ("after_ms", 0),
    ("duration_ms", 1),
    ("seed", 0),
)


class FaultRule(Described):
    """One thing that goes wrong: `kind` for the requests of `api` that touch `topic` and `partition` (None: any).

    `nth` strikes the n-th matching request only (from 1), `every` each k-th, `probability` each with that chance
    (drawn from `seed`); without these every one is struck; `times` bounds how often. `broker_id`: only requests that
    this broker handles. `after_ms`, `duration_ms`: only from so long after the rule was added, and for so long.
    `error` is Kafka's error code. `moment` goes with crashes; of those that cut the power, `seed` (0) also says what is
    left of the bytes that were not synced. Raises ConfigError.
    """

    __slots__ = (
        "after_ms",
        "api",
        "broker_id",
        "delay_ms",
        "duration_ms",
        "error",
        "every",
        "kind",
        "moment",
        "nth",
        "partition",
        "probability",
        "seed",
        "times",
        "topic",
    )

    def __init__(
        self,
        kind: str,
        topic: str | None = None,
        partition: int | None = None,
        nth: int | None = None,
        every: int | None = None,
        times: int | None = None,
        api: str = "Produce",
        error: int | None = None,
        delay_ms: int | None = None,
        broker_id: int | None = None,
        probability: float | None = None,
        seed: int | None = None,
        after_ms: int | None = None,
        duration_ms: int | None = None,
        moment: str | None = None,
    ) -> None:
        self.kind = kind
        self.topic = topic
        self.partition = partition
        self.nth = nth
        self.every = every
        self.times = times
        self.api = api
        self.error = error
        self.delay_ms = delay_ms
        self.broker_id = broker_id
        self.probability = probability
        self.seed = seed
        self.after_ms = after_ms
        self.duration_ms = duration_ms
        self.moment = moment
        self._check()

    def _check(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"fault kind {self.kind!r} is unknown; known kinds are {', '.join(KINDS)}")
        for name, least in _INTEGERS:
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                raise self._wrong(f"{name}={value!r} must be an integer of at least {least}")
        self._check_which()
        self._check_error()
        if self.kind in _DELAYED and self.delay_ms is None:
            raise self._wrong("delay_ms=None goes with no delay; say for how many milliseconds")
        if self.delay_ms is not None and self.kind not in _MAY_BE_DELAYED:
            raise self._wrong(f"delay_ms={self.delay_ms} goes with {', '.join(_MAY_BE_DELAYED)}, and only with them")
        self._check_moment()

    def _check_moment(self) -> None:
        if self.moment is None:
            self.moment = _DEFAULT_MOMENT.get(self.kind)
            return
        if self.kind not in _MOMENTS_OF:
            raise self._wrong(f"moment={self.moment!r} goes with {', '.join(_MOMENTS_OF)}, and only with them")
        moments = _MOMENTS_OF[self.kind]
        if self.moment not in moments:
            raise self._wrong(f"moment={self.moment!r} must be one of {', '.join(moments)}")

    @property
    def is_before_append(self) -> bool:
        """Whether it strikes before anything is appended."""
        return self.kind in BEFORE_APPEND or self.moment == REQUEST

    def _check_which(self) -> None:
        if self.nth is not None and (self.every is not None or self.times is not None):
            raise self._wrong("nth strikes once and excludes every and times; give one or the other")
        if self.partition is not None and self.topic is None:
            raise self._wrong(f"partition={self.partition} needs a topic")
        chance = self.probability
        if chance is not None:
            if type(chance) not in (int, float) or not 0 < chance <= 1:
                raise self._wrong(f"probability={chance!r} must be a number above 0 and up to 1")
            if self.nth is not None or self.every is not None:
                raise self._wrong("probability excludes nth and every; give one or the other")
        elif self.seed is not None and self.kind not in _TORN:
            raise self._wrong(f"seed={self.seed} goes with a probability, or with {' and '.join(_TORN)}")

    def _check_error(self) -> None:
        refusing = self.kind in _DEFAULT_ERROR
        if refusing and self.api != "Produce":
            raise ConfigError(f"fault {self.kind} is for Produce requests only, not for {self.api}")
        if refusing and self.error is None:
            self.error = _DEFAULT_ERROR[self.kind]
        elif self.error is not None and not (refusing and isinstance(self.error, int) and self.error != 0):
            raise self._wrong(f"error={self.error!r} must be one of Kafka's error codes, for refuse")

    def _wrong(self, what: str) -> ConfigError:
        return ConfigError(f"fault {self.kind}: {what}")
