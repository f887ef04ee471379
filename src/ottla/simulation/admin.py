"""A simulated client that sends single requests, as `client/admin_driver` does over sockets."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.connection.asking import AskingCore, Question
from ottla.connection.request import Answer
from ottla.connection.settings import ConnectionSettings
from ottla.host.runner import Runner

if TYPE_CHECKING:
    from ottla.simulation.world import World


class SimulatedAdmin:
    """`answers` has the answers by the token that `ask` returned; one without an answer in time has message None."""

    def __init__(self, world: World, number: int, rng: Random) -> None:
        self.answers: dict[int, Answer] = {}
        # Its name in the trace.
        self.client_name = f"client-{number}"
        self._world = world
        self._number = number
        self._tokens = 0
        core = AskingCore(ConnectionSettings({"bootstrap_servers": world.bootstrap_servers}), rng)
        self._runner = Runner(world.scheduler, core, self._perform, world.clients.clock_of(number))

    def ask(self, message: Any, broker_id: int, limit_us: int) -> int:
        """Send a request to a broker, give up after `limit_us`, and return the token of the answer."""
        self._tokens += 1
        self._runner.deliver(Question(message, self._tokens, broker_id, self._runner.now_us + limit_us))
        return self._tokens

    def is_answered(self) -> bool:
        """Whether every request has its answer, or was given up."""
        return len(self.answers) == self._tokens

    def die(self) -> None:
        """End the process."""
        self._runner.die()
        self._world.network.remove_client(self._number)

    def look_again(self) -> None:
        """Compute deadlines anew: the clock was changed."""
        self._runner.look_again()

    def when_acted(self, acted: Callable[[], None]) -> None:
        """Have this called whenever the core has handled an event or a tick."""
        self._runner.acted = acted

    def _perform(self, output: Any) -> None:
        if not self._world.network.perform(self._number, self._runner.deliver, output):
            self.answers[output.token] = output
