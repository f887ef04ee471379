"""A partitioner of the user's own: a function of a column of keys and a view of the cluster.

`send_table` calls it with whole columns, up to a million keys at a time; `send` with columns of one key. Such a call
costs some microseconds, and sending a record a tenth of one. If it raises, `send` or `send_table` raises a RecordError;
no other record is affected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.errors import OttlaError, RecordError
from ottla.records.key_column import KeyColumn, first_partition

if TYPE_CHECKING:
    from ottla.producer.cluster_view import ClusterView


class PartitionFunction:
    """Calls the function; an exception of it becomes a RecordError that names it."""

    def __init__(self, function: Callable[[KeyColumn, ClusterView], Any]) -> None:
        self._function = function
        self.name: str = getattr(function, "__qualname__", type(function).__qualname__)

    def __call__(self, keys: KeyColumn, view: ClusterView) -> Any:
        """What the function returns for these keys, unchecked."""
        try:
            return self._function(keys, view)
        except OttlaError:
            raise
        except Exception as error:
            raise RecordError(
                f"partitioner.class {self.name} raised {type(error).__name__} for {len(keys)} keys of topic "
                f"{view.topic!r}: {str(error)[:200]}"
            ) from error

    def place(self, key: bytes | None, view: ClusterView) -> int | None:
        """The partition of one key; None leaves it to the default partitioner."""
        return first_partition(self.name, self(KeyColumn([key]), view), view.partition_count)
