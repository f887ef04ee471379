"""Every error a user can meet, in one tree; each is retriable, abortable or fatal.

`OttlaError` is the root. `UserMistake` and what derives from it is shown by the command line as one sentence with
exit status 2. `KafkaError` carries Kafka's own error code and name, and where and when it happened.

Exactly one of three marks is true of every error, with the meaning Kafka's Java client gives them (KIP-1050):

retriable   the same thing may work when it is tried again; errors that ottla tries again by itself are raised only when
            the time for that was over
abortable   what was asked for has failed, and a transaction it was part of must be aborted; the client works on
fatal       the client cannot go on: close it (and make a new one once the cause is gone; but not for a fenced producer,
            since another one has already taken over)
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeVar

_Error = TypeVar("_Error", bound=BaseException)
_OfRow = TypeVar("_OfRow", bound="OttlaError")

TOPIC_NAMES = "up to 249 letters, digits, '.', '_' and '-'"
"""What may be the name of a topic, for texts of errors."""


class OttlaError(Exception):
    """The root of all errors raised by ottla; the message is one clear sentence.

    `retriable`, `abortable`, `fatal`: exactly one is True (`help("ottla.errors")` says what they mean). `topic`,
    `partition` and `broker_id` say where it happened; None where that is not known, or does not apply. The message has
    them, too. `row` is the row of a table (of a reader: of its batch) that cannot be sent or decoded, else None.
    `table` is the `TableDelivery` of what `send_table` or `write_table` had sent when it ended with this error, else
    None.
    """

    retriable: bool = False
    fatal: bool = False
    table: Any = None
    row: int | None = None
    # The message of an error made by `of_row`, in front of and behind the row.
    around: tuple[str, str] | None = None

    def __init__(
        self, *told: object, topic: str | None = None, partition: int | None = None, broker_id: int | None = None
    ) -> None:
        super().__init__(*told)
        self.topic = topic
        self.partition = partition
        self.broker_id = broker_id

    @property
    def abortable(self) -> bool:
        """Whether only what was asked for has failed: trying again does not help, and the client works on."""
        return not (self.retriable or self.fatal)


def shown_name(name: str) -> str:
    """A topic's name for a message: of one longer than any topic has, only the beginning."""
    return repr(name if len(name) <= 249 else f"{name[:50]}...")


class UserMistake(OttlaError):
    """Something the caller gave cannot be used: what, where, what is allowed, what to do."""


class ConfigError(UserMistake, ValueError):
    """A setting is unknown, out of range, or contradicts another one."""

    fatal = True


class RecordError(UserMistake, ValueError):
    """A record or a column handed to `send` or `send_table` cannot be sent as it is."""


class DeserializationError(OttlaError):
    """What is stored in a record is not what its deserializer or its schema says."""


class MissingExtra(UserMistake, ImportError):
    """What was called needs an optional package that is not installed; the message says which command installs it."""


class NotKafka(OttlaError):
    """The address answered with something that is not the Kafka protocol."""

    fatal = True


class Unreachable(OttlaError):
    """No broker could be reached at the bootstrap addresses in the time given."""

    retriable = True


class AuthenticationError(OttlaError):
    """A broker does not accept who this client says it is, or this client does not trust the broker (TLS, SASL)."""

    fatal = True


class BufferFull(OttlaError):
    """`buffer.memory` stayed full for `max.block.ms`."""

    retriable = True


class ForkError(OttlaError):
    """A producer or reader made before a fork was used in the child."""

    fatal = True


class ClosedError(OttlaError):
    """The object was used after `close()`."""

    fatal = True


class KafkaError(OttlaError):
    """An error with one of Kafka's error codes: a broker answered with it, or the client itself found it.

    `code` and `name` are Kafka's (`NOT_LEADER_OR_FOLLOWER`), `broker_id` is the broker that answered, or that did not
    answer. Of a batch, `attempts` says how often it was sent and `age_ms` how long ago it was begun; None elsewhere.
    The message has them, too.
    """

    def __init__(
        self,
        code: int,
        name: str,
        message: str,
        *,
        retriable: bool = False,
        fatal: bool = False,
        topic: str | None = None,
        partition: int | None = None,
        broker_id: int | None = None,
        attempts: int | None = None,
        age_ms: int | None = None,
    ) -> None:
        super().__init__(message, topic=topic, partition=partition, broker_id=broker_id)
        self.code = code
        self.name = name
        self.retriable = retriable
        self.fatal = fatal
        self.attempts = attempts
        self.age_ms = age_ms

    def __reduce__(self) -> tuple[object, ...]:
        return _with_fields, (type(self), str(self), dict(self.__dict__))


class ProducerFenced(KafkaError):
    """A newer producer with the same `transactional.id` has taken over: close this one.

    Do not make a new producer with this id: it would fence the one that has taken over, and two programs that do so
    fence each other again and again. If both are to work side by side, give each an id of its own.
    """


class LogTruncated(KafkaError):
    """A partition's new leader lacks records that were read, or that were to be read.

    That happens when a broker that lagged behind becomes the leader (an unclean election). Without this error the
    reader would skip records, or return other records for offsets already read. `offset`: the reader knew the log up to
    this offset. `leader_epoch`: the epoch of the leader from which it knew it. `truncated_from`: the first offset that
    is known to be lost, None if the broker does not say. `code` and `name` are those of OFFSET_OUT_OF_RANGE.
    """

    def __init__(self, told: KafkaError, *, offset: int, leader_epoch: int, truncated_from: int | None) -> None:
        super().__init__(
            told.code, told.name, str(told), topic=told.topic, partition=told.partition, broker_id=told.broker_id
        )
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.truncated_from = truncated_from


class TransactionError(OttlaError):
    """A transaction failed; abortable: call `abort_transaction`, then begin another one."""


class TransactionAborted(TransactionError):
    """The record was not sent, or does not count, because its transaction is aborted."""


class TransactionUnfinished(TransactionError):
    """A call about a transaction has no answer yet and goes on by itself; repeat the same call to wait for it.

    For `commit_transaction` the outcome is unknown until then: committed, or still open. Never abort instead.
    """

    retriable = True


class TransactionUnknown(TransactionError):
    """Whether the transaction was committed is not known, and this producer will not learn it any more."""

    fatal = True


class TransactionMisuse(UserMistake, RuntimeError):
    """A call that does not fit the state of the transaction, such as `commit_transaction` where none was begun."""


class DeliveryError(OttlaError):
    """Records were not delivered, or are perhaps stored: `failed` and `unknown` count them, `first` is the first cause.

    It is retriable, abortable or fatal as the first cause is, and has its `topic`, `partition`, `broker_id`, `attempts`
    and `age_ms` (None where the cause has none). Sending a record again that is unknown may store it twice. Raised by
    `write_table`, its `table.failures()` names the rows.
    """

    def __init__(self, message: str, *, failed: int = 0, unknown: int = 0, first: BaseException | None = None) -> None:
        super().__init__(
            message,
            topic=getattr(first, "topic", None),
            partition=getattr(first, "partition", None),
            broker_id=getattr(first, "broker_id", None),
        )
        self.failed = failed
        self.unknown = unknown
        self.first = first
        self.retriable: bool = getattr(first, "retriable", False)
        self.fatal: bool = getattr(first, "fatal", False)
        self.attempts: int | None = getattr(first, "attempts", None)
        self.age_ms: int | None = getattr(first, "age_ms", None)


class DeliveryFailed(DeliveryError):
    """The record is certainly not stored."""


class DeliveryUnknown(DeliveryError):
    """The record may or may not be stored: its request left and no answer came back."""


class RegistryError(OttlaError):
    """A schema registry refused something, or none could be reached.

    `code` is the registry's own number (40401 no such subject, 40403 no such schema, 409 incompatible), `status` that
    of HTTP; None where nothing was answered. Retriable where trying again later may help, fatal where the registry does
    not let this client in.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        status: int | None = None,
        retriable: bool = False,
        fatal: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.retriable = retriable
        self.fatal = fatal

    @property
    def says_unknown(self) -> bool:
        """Whether a registry said that it has no such subject, version or schema.

        A 404 alone may come from a proxy, or from a wrong path.
        """
        return self.status == 404 and self.code is not None and self.code // 100 == 404

    def __reduce__(self) -> tuple[object, ...]:
        return _with_fields, (type(self), str(self), dict(self.__dict__))


def _with_fields(kind: type[_Error], message: str, fields: dict[str, object]) -> _Error:
    """Build an unpickled error of its message and its fields."""
    error = kind.__new__(kind, message)
    error.__dict__.update(fields)
    return error


def fresh(error: _Error) -> _Error:
    """Return a copy of the error: one object that is raised again and again would keep all the tracebacks."""
    made = copy.copy(error)
    made.__cause__ = error.__cause__
    return made


def of_row(kind: type[_OfRow], row: int, behind: str, *, before: str = "") -> _OfRow:
    """Return an error about a row: its message is `before`, the word row with the number, and `behind`."""
    error = kind(f"{before}{'row' if before else 'Row'} {row}{behind}")
    error.row = row
    error.around = before, behind
    return error


def renumbered(kind: type[_OfRow], error: OttlaError, number: Callable[[int], int]) -> _OfRow:
    """Return an error with the same message, but with the row that `number` makes of the error's, if it has one."""
    if error.row is None or error.around is None:
        return kind(str(error))
    before, behind = error.around
    return of_row(kind, number(error.row), behind, before=before)
