"""Every error a user can meet, in one tree.

`OttlaError` is the root. `UserMistake` and what derives from it is shown by the command line as one sentence with
exit status 2. `KafkaError` carries Kafka's own error code, name and whether trying again can help.
"""

from __future__ import annotations


class OttlaError(Exception):
    """The root of all errors raised by ottla; the message is one clear sentence."""


class UserMistake(OttlaError):
    """Something the caller gave cannot be used: what, where, what is allowed, what to do."""


class ConfigError(UserMistake, ValueError):
    """A setting is unknown, out of range, or contradicts another one."""


class RecordError(UserMistake, ValueError):
    """A record or a column handed to `send` or `send_table` cannot be sent as it is."""


class MissingExtra(UserMistake, ImportError):
    """What was called needs an optional package that is not installed; the message says which command installs it."""


class NotKafka(OttlaError):
    """The address answered with something that is not the Kafka protocol."""


class Unreachable(OttlaError):
    """No broker could be reached at the bootstrap addresses in the time given."""


class BufferFull(OttlaError):
    """`buffer.memory` stayed full for `max.block.ms`."""


class ForkError(OttlaError):
    """A producer or reader made before a fork was used in the child."""


class ClosedError(OttlaError):
    """The object was used after `close()`."""


class KafkaError(OttlaError):
    """An error code a broker answered with (or that the client gives the same name).

    `code` and `name` are Kafka's (`NOT_LEADER_OR_FOLLOWER`), `retriable` as Kafka classifies it.
    """

    def __init__(self, code: int, name: str, message: str, *, retriable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.name = name
        self.retriable = retriable

    def __reduce__(self) -> tuple[object, ...]:
        return _kafka_error, (self.code, self.name, str(self), self.retriable)


def _kafka_error(code: int, name: str, message: str, retriable: bool) -> KafkaError:
    return KafkaError(code, name, message, retriable=retriable)


class DeliveryError(OttlaError):
    """Records were not delivered, or nobody knows: `failed` and `unknown` count them, `first` is the first cause."""

    def __init__(self, message: str, *, failed: int = 0, unknown: int = 0, first: BaseException | None = None) -> None:
        super().__init__(message)
        self.failed = failed
        self.unknown = unknown
        self.first = first


class DeliveryFailed(DeliveryError):
    """The record is certainly not stored."""


class DeliveryUnknown(DeliveryError):
    """The record may or may not be stored: its request left and no answer came back."""
