"""Which frames of a client are SASL tokens without a header, as they follow a SaslHandshake of version 0."""

from __future__ import annotations

# How many of them a client sends, by mechanism.
_TOKENS = {"PLAIN": 1, "OAUTHBEARER": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2}
# Of other mechanisms (GSSAPI) nobody knows how many. A frame that begins like this is no request: Kafka's API keys are
# below 200.
_API_KEY_MAX = 1000
_HEADER_BYTES_MIN = 8


class SaslTokens:
    """Asked once about each frame of a client, in order."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        # How many are to come; -1 where that is not known.
        self._left = 0

    def begin(self, mechanism: str) -> None:
        """The client has asked for this mechanism: tokens are next."""
        self._left = _TOKENS.get(mechanism, -1)

    def take(self, frame: memoryview) -> bool:
        """Whether the frame is a token."""
        if self._left > 0:
            self._left -= 1
            return True
        if self._left < 0:
            if int.from_bytes(frame[:2], "big") >= _API_KEY_MAX or len(frame) < _HEADER_BYTES_MIN:
                return True
            self._left = 0
        return False
