"""Why the controller does not do what it was asked for."""

from __future__ import annotations


class Refused(Exception):
    """Kafka's error code and a sentence."""

    def __init__(self, error_code: int, detail: str) -> None:
        super().__init__(detail)
        self.error_code = error_code
