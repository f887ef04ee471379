"""A short text for a message: the line beside its arrow in a story.

Requests and answers with a plan's records are shown with partitions, offsets, sequence numbers and the records' own
numbers, others by their API, and every answer with its errors. `is_idle` is true of messages that come all the time and
say nothing new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ottla.host.crossing import Crossing
from ottla.ledger.schema import SEQUENCE_HEADER, unpack_sequence
from ottla.protocol.error_codes import error_name
from ottla.records.plain import decode_batches
from ottla.simulation.states import error_codes

# APIs whose messages come all the time, without news.
_IDLE = ("BrokerHeartbeat", "ApiVersions", "ClusterImage", "GetTelemetrySubscriptions")
_SHOWN_PLACES = 3
# The prefix of internal topics: the coordinators' answers say what is in them.
_INTERNAL = "__"


def api_of(message: Any) -> str:
    """ "Produce" for a ProduceRequest and for its answer."""
    return type(message).__name__.removesuffix("Request").removesuffix("Response")


def is_idle(crossing: Crossing) -> bool:
    """Whether the story leaves this message out: it has no news, and no error."""
    message = crossing.message
    if message is None:
        return crossing.what != "hang up"
    if any(error_codes(message)):
        return False
    if api_of(message) in _IDLE:
        return True
    kind = type(message).__name__
    if kind == "FetchRequest":
        return all(topic.topic.startswith(_INTERNAL) for topic in message.topics)
    return kind == "FetchResponse" and not any(True for _ in _answered(message))


def words_of(message: Any) -> str:
    """One line about a message; "" if there is nothing to say but the API's name."""
    tell = _WORDS.get(type(message).__name__)
    said = tell(message) if tell is not None else ""
    errors = list(dict.fromkeys(error_name(code) for code in error_codes(message) if code))
    if errors and not any(error in said for error in errors):
        said = f"{said} {', '.join(errors)}".strip()
    return said


def records_in(records: Any) -> list[int]:
    """The numbers of the records in these batches, -1 for those without one; control records are left out."""
    return [number_of(record) for header, found in decode_batches(records) if not header.is_control for record in found]


def number_of(record: Any) -> int:
    """A record's own number, -1 if it has none."""
    packed = next((value for key, value in record.headers if key == SEQUENCE_HEADER), None)
    number = None if packed is None else unpack_sequence(packed)
    return -1 if number is None else number


def runs(numbers: Iterable[int]) -> str:
    """ "3-5, 8" for 3, 4, 5, 8."""
    told: list[list[int]] = []
    for number in numbers:
        if told and number == told[-1][1] + 1:
            told[-1][1] = number
        else:
            told.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in told)


def _listed(pieces: Iterator[str] | list[str]) -> str:
    told = list(pieces)
    more = len(told) - _SHOWN_PLACES
    return "; ".join(told[:_SHOWN_PLACES]) + (f"; {more} more" if more > 0 else "")


def _plural(numbers: list[int]) -> str:
    return f"record{'' if len(numbers) == 1 else 's'} {runs(numbers)}"


def _produce(message: Any) -> str:
    return _listed(
        f"{topic.name}-{part.index}: {_batches(part.records)}"
        for topic in message.topic_data
        for part in topic.partition_data
    )


def _batches(records: Any) -> str:
    header = next((header for header, _ in decode_batches(records)), None)
    if header is None:
        return "nothing"
    said = _plural(records_in(records))
    if header.producer_id >= 0:
        said += f" (producer {header.producer_id}/{header.producer_epoch}, sequence {header.base_sequence})"
    return said


def _produced(message: Any) -> str:
    return _listed(
        f"{topic.name}-{part.index}: {error_name(part.error_code) if part.error_code else f'offset {part.base_offset}'}"
        for topic in message.responses
        for part in topic.partition_responses
    )


def _fetch(message: Any) -> str:
    return _listed(
        f"{topic.topic}-{part.partition} from {part.fetch_offset}"
        for topic in message.topics
        if not topic.topic.startswith(_INTERNAL)
        for part in topic.partitions
    )


def _answered(message: Any) -> Iterator[tuple[str, Any]]:
    """The partitions of a Fetch answer with records, a divergence or an error."""
    for topic in message.responses:
        for part in topic.partitions:
            has_news = bool(part.records) and not topic.topic.startswith(_INTERNAL)
            if part.error_code or has_news or (part.diverging_epoch is not None and part.diverging_epoch.epoch >= 0):
                yield f"{topic.topic}-{part.partition_index}", part


def _fetched(message: Any) -> str:
    return _listed(_fetched_part(place, part) for place, part in _answered(message)) or "nothing new"


def _fetched_part(place: str, part: Any) -> str:
    if part.error_code:
        return f"{place}: {error_name(part.error_code)}"
    if part.diverging_epoch is not None and part.diverging_epoch.epoch >= 0:
        return f"{place}: diverges after epoch {part.diverging_epoch.epoch}, offset {part.diverging_epoch.end_offset}"
    numbers = records_in(part.records)
    return f"{place}: {_plural(numbers) if numbers else 'a marker'}, high watermark {part.high_watermark}"


def _metadata(message: Any) -> str:
    return f"about {', '.join(topic.name or '?' for topic in message.topics)}" if message.topics else ""


def _leaders(message: Any) -> str:
    return _listed(
        f"{topic.name}-{part.partition_index} led by {part.leader_id if part.leader_id >= 0 else 'nobody'}"
        for topic in message.topics
        for part in topic.partitions
    )


def _identity(message: Any) -> str:
    return f"producer {message.producer_id}/{message.producer_epoch}" if message.producer_id >= 0 else ""


def _init(message: Any) -> str:
    return f"{message.transactional_id or 'without a transactional.id'} {_identity(message)}".strip()


def _end(message: Any) -> str:
    return f"{'commit' if message.committed else 'abort'} {message.transactional_id} {_identity(message)}"


def _added(message: Any) -> str:
    topics = message.v3_and_below_topics or [topic for each in message.transactions for topic in each.topics]
    verify = "verify " if any(each.verify_only for each in message.transactions) else ""
    return verify + _listed(f"{topic.name}-{part}" for topic in topics for part in topic.partitions)


def _markers(message: Any) -> str:
    return _listed(
        f"{'commit' if marker.transaction_result else 'abort'} producer {marker.producer_id}/{marker.producer_epoch} "
        f"in {topic.name}-{runs(topic.partition_indexes)}"
        for marker in message.markers
        for topic in marker.topics
    )


def _offsets(message: Any) -> str:
    return f"{message.group_id}: " + _listed(
        f"{topic.name}-{part.partition_index} at {part.committed_offset}"
        for topic in message.topics
        for part in topic.partitions
    )


def _listed_offsets(message: Any) -> str:
    return _listed(
        f"{topic.name}-{part.partition_index}: {part.offset}"
        for topic in message.topics
        for part in topic.partitions
        if not part.error_code
    )


def _in_sync(message: Any) -> str:
    return _listed(
        f"epoch {part.leader_epoch}, in sync {', '.join(str(each.broker_id) for each in part.new_isr_with_epochs)}"
        for topic in message.topics
        for part in topic.partitions
    )


_WORDS: dict[str, Callable[[Any], str]] = {
    "AddPartitionsToTxnRequest": _added,
    "AlterPartitionRequest": _in_sync,
    "EndTxnRequest": _end,
    "EndTxnResponse": _identity,
    "FetchRequest": _fetch,
    "FetchResponse": _fetched,
    "FindCoordinatorRequest": lambda message: f"of {message.key or ', '.join(message.coordinator_keys)}",
    "FindCoordinatorResponse": lambda message: "" if message.node_id < 0 else f"broker-{message.node_id}",
    "InitProducerIdRequest": _init,
    "InitProducerIdResponse": _identity,
    "ListOffsetsResponse": _listed_offsets,
    "MetadataRequest": _metadata,
    "MetadataResponse": _leaders,
    "ProduceRequest": _produce,
    "ProduceResponse": _produced,
    "TxnOffsetCommitRequest": _offsets,
    "WriteTxnMarkersRequest": _markers,
}
