"""One thing that keeps a schema from reading what another one wrote; and how long one may look for it."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.embedded_registry.refusals import INVALID_SCHEMA, Refusal

STEPS_MAX = 100_000


@dataclass(slots=True, frozen=True)
class Difference:
    """`kind` is a word for programs, as far as there is one that of the Confluent Schema Registry; `path` is where."""

    kind: str
    path: str
    told: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.path or '/'}: {self.told}"


class Budget:
    """Bounds one comparison: two schemas can be made so that to compare them takes for ever."""

    def __init__(self, steps_max: int = STEPS_MAX) -> None:
        self._left = steps_max

    def spend(self, steps: int = 1) -> None:
        """Refusal where too many steps were taken."""
        self._left -= steps
        if self._left < 0:
            raise Refusal(INVALID_SCHEMA, "the schemas are too large to compare: they have too many pairs of types.")
