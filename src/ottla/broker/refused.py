"""Why a broker refuses a request."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.protocol.error_codes import ErrorCode


class Refused(Exception):
    """Kafka's error code, and what the answer has beside it where it has fields for that.

    `detail` is a sentence, None for none. `records` are [(number in the batch, sentence)] of a batch that is refused.
    `member_id` is that of a group's member, where the answer names one.
    """

    def __init__(
        self,
        error_code: int,
        detail: str | None = None,
        records: Sequence[tuple[int, str]] = (),
        *,
        member_id: str = "",
    ) -> None:
        super().__init__(error_code if detail is None else detail)
        self.error_code = error_code
        self.detail = detail
        self.records = records
        self.member_id = member_id


def not_written(error: OSError) -> Refused:
    """Why a change is refused that the controller could not store."""
    return Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"the controller cannot write: {error.strerror}")
