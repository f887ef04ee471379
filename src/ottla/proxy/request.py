"""One request on its way through the proxy: what its header says, and its message where that is needed."""

from __future__ import annotations

from struct import Struct
from typing import Any

from ottla.faults.plan import Action, FaultContext
from ottla.faults.request_fault import Does
from ottla.protocol.errors import UnknownApi, UnsupportedVersion
from ottla.protocol.frames import decode_request
from ottla.protocol.messages import FETCH, LIST_OFFSETS, MODULES, PRODUCE, SASL_HANDSHAKE
from ottla.protocol.messages.headers import RequestHeader
from ottla.protocol.primitives import Decoder

# What touches partitions, so that faults may ask which.
WITH_PARTITIONS = (PRODUCE, FETCH, LIST_OFFSETS)
_LENGTH = Struct(">i")
TOKEN = -1  # in place of an API key
_NO_HEADER = RequestHeader(request_api_key=TOKEN)


class Request:
    """A request, and its answer once there is one.

    `frame` is what the client sent, without its length; it is given up when it was forwarded, unless a fault still
    needs it. `message` is None where it need not be decoded.
    """

    __slots__ = (
        "action",
        "answer",
        "api_key",
        "client_id",
        "context",
        "correlation_id",
        "due_us",
        "ending",
        "expects_answer",
        "frame",
        "held_by",
        "is_repeat",
        "message",
        "received_us",
        "refused",
        "version",
    )

    def __init__(self, frame: memoryview, now_us: int, *, decoded: bool = False, is_token: bool = False) -> None:
        """Raises MalformedMessage. `decoded`: also what only faults ask for. `is_token`: it has no header (SASL)."""
        self.frame: memoryview | None = frame
        self.received_us = now_us
        header = _NO_HEADER if is_token else RequestHeader.read(Decoder(frame), 1)
        self.api_key = header.request_api_key
        self.version = header.request_api_version
        self.correlation_id = header.correlation_id
        self.client_id = header.client_id
        self.message: Any = None
        if self.api_key in (PRODUCE, SASL_HANDSHAKE) or (decoded and self.api_key in WITH_PARTITIONS):
            self.message = self._decoded()
        self.expects_answer = not (self.api_key == PRODUCE and self.message is not None and self.message.acks == 0)
        self.context: FaultContext | None = None
        # What a fault does to it before, or after, it is handled; until when it, or its answer, waits.
        self.action: Action | None = None
        self.due_us = 0
        self.held_by = 0
        # "lose" or "drop" where its connection ends in place of its answer.
        self.ending: Does | None = None
        # What was refused of it, to be added to what upstream answers.
        self.refused: Action | None = None
        # A fault has it handled once more: the client gets no answer to that.
        self.is_repeat = False
        self.answer: list[Any] | None = None

    def _decoded(self) -> Any:
        assert self.frame is not None
        try:
            return decode_request(self.frame, lenient=True)[1]
        except (UnknownApi, UnsupportedVersion):
            return None

    @property
    def api(self) -> str:
        """The API's name, as faults call it."""
        known = MODULES.get(self.api_key)
        return known[1] if known is not None else f"API {self.api_key}"

    def pieces(self) -> list[Any]:
        """The frame as the client sent it, length first."""
        assert self.frame is not None
        return framed(self.frame)


def framed(frame: Any) -> list[Any]:
    """A frame with its length in front."""
    return [_LENGTH.pack(len(frame)), frame]
