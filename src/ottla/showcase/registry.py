"""The schema registry of a run: one of its own beside the run's Kafka, or the user's.

Invariant: subjects that a run has registered in a registry of the user's are deleted at its end, unless the records
that need them are kept; no other subject is ever touched.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ottla.errors import OttlaError, RegistryError
from ottla.registry.client import RegistryClient

if TYPE_CHECKING:
    from ottla.registry.registered import RegisteredSchema
    from ottla.showcase.kafka import RunKafka

_NOT_FOUND = 404


class RunRegistry:
    """The registry at `url`; `is_own` says that it is the run's. RegistryError where none answers.

    `stack` closes and deletes what was made. `keeps`: subjects stay. `say` gets a sentence for each that could not be
    deleted.
    """

    def __init__(
        self, url: str | None, kafka: RunKafka, stack: ExitStack, *, keeps: bool, say: Callable[[str], None]
    ) -> None:
        self.is_own = url is None
        self.url = kafka.start_registry(stack) if url is None else url
        self._client = stack.enter_context(RegistryClient(self.url))
        # On a Kafka of the user's, the topics of a run have a prefix of their own already.
        self._before = "" if self.is_own or kafka.where else f"ottla-run-{secrets.token_hex(4)}-"
        self._subjects: list[str] = []
        self._say = say
        if not self.is_own:
            self._client.subjects("ottla-run-")
            if not keeps:
                stack.callback(self._delete)

    def register(self, topic: str, text: str) -> RegisteredSchema:
        """A version of the subject of a topic's values, with its number."""
        subject = f"{self._before}{topic}-value"
        if subject not in self._subjects:
            self._subjects.append(subject)
        found = self._client.register(subject, text)
        # Older registries answer a registration with the id alone.
        return found if found.version is not None else self._client.look_up(subject, text)

    def _delete(self) -> None:
        for subject in self._subjects:
            try:
                # Only what was deleted before can be deleted for good.
                self._client.delete_subject(subject)
                self._client.delete_subject(subject, permanent=True)
            except OttlaError as error:
                if not isinstance(error, RegistryError) or error.status != _NOT_FOUND:
                    self._say(f"the subject {subject} at {self.url} could not be deleted: {error}")
