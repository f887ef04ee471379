"""One connection: the bytes of both ways, with times, become exchanges.

A pure core that never raises, whatever the bytes are. It is given what was seen (`receive`), what is known to be
missing (`lose`) and the end of the connection (`end`), and each call returns what is known by then: exchanges, and
remarks about bytes that are none. A caller that has whole frames gives those (`take_request`, `take_response`).

An exchange is complete with its answer, which is found by its correlation id. Requests that were never answered are
returned at the end. If one direction is out of step (the recording began late, bytes were lost), it is read on from the
next piece of bytes that begins like a request that we know, or like the answer to one that waits: packets of clients
and brokers nearly always begin with a frame.

After SaslHandshake version 0 the client sends bare tokens in frames. Only their sizes are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.protocol.apis import REQUESTS
from ottla.protocol.errors import ProtocolError, UnknownApi, UnsupportedVersion
from ottla.protocol.frames import correlation_id_of, decode_request, decode_response
from ottla.protocol.messages import SASL_HANDSHAKE
from ottla.protocol.messages.headers import RequestHeader
from ottla.protocol.primitives import Decoder
from ottla.tap.api_names import API_NAMES, SECRET_APIS
from ottla.tap.content import Content
from ottla.tap.exchange import Entry, Exchange, Outcome, Remark, RemarkKind, Way
from ottla.tap.frame_stream import FRAME_BYTES_MAX, LENGTH_BYTES, Frame, FrameStream

# The shortest header: API key, version, correlation id, no client id.
_HEADER_BYTES_MIN = 10
# No API of Kafka 4.3 has as many versions.
_VERSION_MAX = 63
_TLS_RECORDS = (0x14, 0x15, 0x16, 0x17)
_TLS_MAJOR = 0x03
_TLS_MINOR_MAX = 4
_TLS_RECORD_BYTES_MAX = (1 << 14) + 2048


@dataclass(slots=True)
class _Asked:
    """A request that waits for its answer."""

    header: RequestHeader
    api: str
    request_us: int
    request_bytes: int
    content: Content
    request_class: type[Any] | None
    unread: str | None = None
    missing_bytes: int = 0
    frame: bytes | None = None
    is_secret: bool = False
    is_token: bool = False


@dataclass(slots=True)
class _Path:
    """One way of the connection."""

    way: Way
    stream: FrameStream
    # Bytes passed over since the way fell out of step, or since it turned out to be no Kafka.
    passed_over: int = 0
    is_given_up: bool = False


class Conversation:
    """What passes on one connection; `client` and `broker` are addresses as they are to be shown.

    `hashes`: whether each batch is hashed and its CRC checked (about 0.7 ms for a megabyte). `payloads`: whether the
    bytes of frames are kept, secrets excepted. `is_begun`: whether its first bytes will be seen. `topic_names`: topic
    id -> name, shared by the connections of a cluster; answers add to it.
    """

    def __init__(
        self,
        connection: int,
        client: str,
        broker: str,
        *,
        hashes: bool = True,
        payloads: bool = False,
        is_begun: bool = True,
        topic_names: dict[bytes, str] | None = None,
    ) -> None:
        self.connection = connection
        self.client = client
        self.broker = broker
        self._hashes = hashes
        self._payloads = payloads
        self._topic_names = {} if topic_names is None else topic_names
        self._asked: list[_Asked] = []
        self._paths = {way: _Path(way, FrameStream(is_in_step=is_begun)) for way in Way}
        self._is_begun = is_begun
        self._expects_tokens = False
        self._is_tls = False
        # Whether a frame was read.
        self._has_spoken = False
        self._last_us = 0

    def receive(self, way: Way, data: bytes | bytearray | memoryview, now_us: int) -> list[Entry]:
        """These bytes passed; what they complete."""
        self._last_us = now_us
        path = self._paths[way]
        view = memoryview(data)
        found: list[Entry] = []
        if path.is_given_up:
            path.passed_over += len(view)
            return found
        if not path.stream.is_in_step and not self._finds_step(path, view, found):
            path.passed_over += len(view)
            return found
        for frame in path.stream.take(view):
            found += self._take(way, frame, now_us)
            if self._paths[way].is_given_up:
                return found
        if path.stream.broken is not None:
            self._give_up(path, path.stream.broken, found)
        return found

    def lose(self, way: Way, count: int, now_us: int) -> list[Entry]:
        """`count` bytes passed here that were not seen."""
        self._last_us = now_us
        path = self._paths[way]
        if count <= 0:
            return []
        if path.is_given_up or not path.stream.is_in_step:
            path.passed_over += count
            return []
        found = [entry for frame in path.stream.skip(count) for entry in self._take(way, frame, now_us)]
        if not self._paths[way].stream.is_in_step:
            found.append(self._remark(RemarkKind.LOST, way, count, f"{count:,} bytes were not captured"))
        return found

    def take_request(self, frame: memoryview, now_us: int) -> list[Entry]:
        """A whole request frame without its length passed."""
        self._last_us = now_us
        return self._request(Frame(frame, len(frame) + LENGTH_BYTES, 0), now_us)

    def take_response(self, frame: memoryview, now_us: int) -> list[Entry]:
        """A whole response frame without its length passed."""
        self._last_us = now_us
        return self._response(Frame(frame, len(frame) + LENGTH_BYTES, 0), now_us)

    def end(self, now_us: int | None = None, *, why: str = "the connection ended") -> list[Entry]:
        """The connection, or its recording, has ended: what was begun and not completed."""
        if now_us is not None:
            self._last_us = now_us
        found: list[Entry] = []
        for path in self._paths.values():
            begun, promised = path.stream.begun_bytes, path.stream.promised_bytes
            if begun and not path.is_given_up and path.stream.broken is None:
                size = "a length field" if promised is None else f"a frame of {promised:,} bytes"
                found.append(self._remark(RemarkKind.CUT_OFF, path.way, begun, f"{why} {begun:,} bytes into {size}"))
            path.stream.leave_step()
            self._tell_passed_over(path, found)
        found += [self._exchange(asked, Outcome.UNANSWERED) for asked in self._asked if not asked.is_token]
        self._asked.clear()
        return found

    def _take(self, way: Way, frame: Frame, now_us: int) -> list[Entry]:
        return self._request(frame, now_us) if way is Way.TO_BROKER else self._response(frame, now_us)

    def _request(self, frame: Frame, now_us: int) -> list[Entry]:
        header = _header_in(frame.seen)
        if self._expects_tokens:
            if header is None or not _is_known(header):
                self._asked.append(self._token(frame, now_us))
                return [self._token_remark(Way.TO_BROKER, frame)]
            self._expects_tokens = False
        if header is None:
            found: list[Entry] = []
            self._give_up(self._paths[Way.TO_BROKER], bytes(frame.seen[:LENGTH_BYTES]), found, frame.size_bytes)
            return found
        self._has_spoken = True
        asked, message = self._decoded(header, frame, now_us)
        if header.request_api_key == SASL_HANDSHAKE and header.request_api_version == 0:
            self._expects_tokens = True
        if getattr(message, "acks", None) == 0:
            return [self._exchange(asked, Outcome.NOT_DUE)]
        self._asked.append(asked)
        return []

    def _decoded(self, header: RequestHeader, frame: Frame, now_us: int) -> tuple[_Asked, Any]:
        """The request as it waits for its answer, and its message; None where that cannot be read."""
        key = header.request_api_key
        content = Content(self._topic_names, hashes=self._hashes)
        message, unread = None, _missing(frame)
        if unread is None:
            try:
                _, message = decode_request(frame.seen, lenient=True)
                content.read(message)
            except UnknownApi:
                unread = "requests of this API are not decoded"
            except UnsupportedVersion:
                unread = "requests of this version are not decoded"
            except ProtocolError as error:
                unread = f"the request cannot be read: {error}"
        is_secret = key in SECRET_APIS
        asked = _Asked(
            header=header,
            api=API_NAMES[key],
            request_us=now_us,
            request_bytes=frame.size_bytes,
            content=content,
            request_class=REQUESTS.get(key) if _is_known(header) else None,
            unread=unread,
            missing_bytes=frame.missing_bytes,
            frame=bytes(frame.seen) if self._payloads and not is_secret else None,
            is_secret=is_secret,
        )
        return asked, message

    def _response(self, frame: Frame, now_us: int) -> list[Entry]:
        if self._asked and self._asked[0].is_token:
            self._asked.pop(0)
            return [self._token_remark(Way.TO_CLIENT, frame)]
        try:
            correlation_id = correlation_id_of(frame.seen)
        except ProtocolError:
            found: list[Entry] = []
            self._give_up(self._paths[Way.TO_CLIENT], bytes(frame.seen[:LENGTH_BYTES]), found, frame.size_bytes)
            return found
        asked = next((each for each in self._asked if each.header.correlation_id == correlation_id), None)
        if asked is None:
            return [self._unasked(correlation_id, frame, now_us)]
        self._asked.remove(asked)
        self._has_spoken = True
        missing = _missing(frame)
        if missing is not None:
            asked.unread = asked.unread or missing
            asked.missing_bytes += frame.missing_bytes
        elif asked.request_class is not None:
            try:
                version = asked.header.request_api_version
                asked.content.read(decode_response(frame.seen, asked.request_class, version)[1])
            except ProtocolError as error:
                asked.unread = asked.unread or f"the answer cannot be read: {error}"
        payload = bytes(frame.seen) if self._payloads and not asked.is_secret else None
        return [self._exchange(asked, Outcome.ANSWERED, now_us, frame.size_bytes, payload)]

    def _exchange(
        self,
        asked: _Asked,
        outcome: Outcome,
        response_us: int | None = None,
        response_bytes: int | None = None,
        response_frame: bytes | None = None,
    ) -> Exchange:
        header, content = asked.header, asked.content
        return Exchange(
            connection=self.connection,
            client=self.client,
            broker=self.broker,
            outcome=outcome,
            request_us=asked.request_us,
            response_us=response_us,
            end_us=self._last_us if outcome is Outcome.UNANSWERED else None,
            request_bytes=asked.request_bytes,
            response_bytes=response_bytes,
            missing_bytes=asked.missing_bytes,
            api_key=header.request_api_key,
            api=asked.api,
            version=header.request_api_version,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
            **content.identity,
            error=content.error,
            error_message=content.error_message,
            unread=asked.unread,
            partitions=content.partitions(),
            request_frame=asked.frame,
            response_frame=response_frame,
        )

    def _unasked(self, correlation_id: int, frame: Frame, now_us: int) -> Exchange:
        # What it answers is unknown, and may be a secret: its bytes are not kept.
        return Exchange(
            connection=self.connection,
            client=self.client,
            broker=self.broker,
            outcome=Outcome.UNASKED,
            response_us=now_us,
            response_bytes=frame.size_bytes,
            missing_bytes=frame.missing_bytes,
            correlation_id=correlation_id,
        )

    def _token(self, frame: Frame, now_us: int) -> _Asked:
        content = Content(self._topic_names, hashes=False)
        return _Asked(RequestHeader(), "", now_us, frame.size_bytes, content, None, is_token=True)

    def _token_remark(self, way: Way, frame: Frame) -> Remark:
        what = f"a SASL token of {frame.size_bytes - LENGTH_BYTES:,} bytes, not kept"
        return self._remark(RemarkKind.SASL_TOKEN, way, frame.size_bytes, what)

    def _remark(self, kind: RemarkKind, way: Way, size_bytes: int, what: str) -> Remark:
        return Remark(
            time_us=self._last_us,
            connection=self.connection,
            client=self.client,
            broker=self.broker,
            kind=kind,
            way=way,
            size_bytes=size_bytes,
            what=what,
        )

    def _finds_step(self, path: _Path, data: memoryview, found: list[Entry]) -> bool:
        """Whether these bytes begin with a frame, as far as can be told: the way is read on from here."""
        if not self._has_spoken and begins_tls(data):
            self._give_up(path, bytes(data[:LENGTH_BYTES]), found, 0)
            return False
        if not (begins_request(data) if path.way is Way.TO_BROKER else self._begins_response(data)):
            return False
        self._tell_passed_over(path, found)
        path.stream = FrameStream()
        return True

    def _begins_response(self, data: memoryview) -> bool:
        length = int.from_bytes(data[:LENGTH_BYTES], "big")
        if len(data) < 2 * LENGTH_BYTES or not LENGTH_BYTES <= length <= FRAME_BYTES_MAX:
            return False
        correlation_id = correlation_id_of(data[LENGTH_BYTES:])
        return any(each.header.correlation_id == correlation_id and not each.is_token for each in self._asked)

    def _tell_passed_over(self, path: _Path, found: list[Entry]) -> None:
        count, path.passed_over = path.passed_over, 0
        if not count:
            return
        if path.is_given_up:
            kind = RemarkKind.TLS if self._is_tls else RemarkKind.NOT_KAFKA
            found.append(self._remark(kind, path.way, count, f"{count:,} more bytes were not read"))
        else:
            what = f"{count:,} bytes passed over: no beginning of a frame was seen"
            found.append(self._remark(RemarkKind.BEGINNING_UNSEEN, path.way, count, what))

    def _give_up(self, path: _Path, begin: bytes, found: list[Entry], size_bytes: int = LENGTH_BYTES) -> None:
        """The way cannot be read on; nor can the other, where it is TLS or nobody has spoken Kafka yet."""
        path.is_given_up = True
        if not self._has_spoken:
            for each in self._paths.values():
                each.is_given_up = True
        if begins_tls(begin):
            is_first = not self._is_tls
            self._is_tls = True
            for each in self._paths.values():
                each.is_given_up = True
            if is_first:
                found.append(self._remark(RemarkKind.TLS, path.way, size_bytes, "TLS: what is inside cannot be read"))
            return
        what = f"not the Kafka protocol: {begin!r} where a frame should begin"
        found.append(self._remark(RemarkKind.NOT_KAFKA, path.way, size_bytes, what))


def begins_request(data: memoryview) -> bool:
    """Whether these bytes begin with a request in a version that is known here, as far as they can tell."""
    length = int.from_bytes(data[:LENGTH_BYTES], "big")
    if not _HEADER_BYTES_MIN <= length <= FRAME_BYTES_MAX:
        return False
    frame = data[LENGTH_BYTES : LENGTH_BYTES + length]
    header = _header_in(frame)
    if header is None or not _is_known(header) or not (header.client_id or "").isprintable():
        return False
    if len(frame) < length:
        # An answer may look like a request without a client id.
        return bool(header.client_id)
    try:
        decode_request(frame, lenient=True)
    except ProtocolError:
        return False
    return True


def begins_tls(data: bytes | memoryview) -> bool:
    """Whether these bytes begin like a record of TLS (RFC 8446, 5.1)."""
    if len(data) < 3 or data[0] not in _TLS_RECORDS or data[1] != _TLS_MAJOR or data[2] > _TLS_MINOR_MAX:
        return False
    return len(data) < 5 or 0 < int.from_bytes(data[3:5], "big") <= _TLS_RECORD_BYTES_MAX


def _header_in(frame: memoryview) -> RequestHeader | None:
    """The request header that a frame begins with; None where it can be none of Kafka's."""
    try:
        header = RequestHeader.read(Decoder(frame), 1)
    except ProtocolError:
        return None
    is_kafka = header.request_api_key in API_NAMES and 0 <= header.request_api_version <= _VERSION_MAX
    return header if is_kafka else None


def _is_known(header: RequestHeader) -> bool:
    known = REQUESTS.get(header.request_api_key)
    return known is not None and known.MIN_VERSION <= header.request_api_version <= known.MAX_VERSION


def _missing(frame: Frame) -> str | None:
    return f"{frame.missing_bytes:,} of its bytes were not captured" if frame.missing_bytes else None
