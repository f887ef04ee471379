"""What of the acknowledged records is there after brokers died or lost power: the guide's own table, cell by cell.

The rows and columns are read from docs/embedded-cluster.md: a row or a column that says something new fails here until
there is a scenario for it. "kept" must hold for every seed, "may be lost" for one of them at least.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from .world import TOPIC, World, batch_of, produce_request, records_of

GUIDE = Path(__file__).parents[2] / "docs" / "embedded-cluster.md"
HEADING = "## Which acknowledged records are kept"
SEEDS = range(30)
RECORDS = 8
SESSION_MS = 1500  # the default of broker.session.timeout.ms
FLUSHER_MS = 30_000  # the default of os.flush.interval.ms

# What a producer asks for: (acks, settings of the topic), by the table's columns.
COLUMNS: dict[str, tuple[int, dict[str, int]]] = {
    "acks=1": (1, {}),
    "acks=all": (-1, {}),
    "acks=all, `flush.messages=1`": (-1, {"flush_messages": 1}),
}


class Survival:
    """A topic on three brokers, its producer, and links to followers that fail now and then."""

    def __init__(self, seed: int, acks: int, configs: dict[str, int], *, brokers: int = 3) -> None:
        self.rng = Random(f"survival {seed}")
        self.world = World(brokers)
        assert self.world.create_topic(replicas=brokers, **configs) == 0
        self._acks = acks
        # Where the answer to each request will be, and the request's value.
        self._asked: list[tuple[list[Any], bytes]] = []

    @property
    def leader(self) -> int:
        return self.world.leader()

    @property
    def followers(self) -> list[int]:
        return [broker_id for broker_id in self.world.partition().replicas if broker_id != self.leader]

    def produce(self) -> None:
        """Records one after the other; a follower that is cut off meanwhile has some of them later, or never."""
        world = self.world
        for number in range(RECORDS):
            if self.followers and self.rng.random() < 0.4:
                world.cut = set(self.rng.sample(self.followers, self.rng.randint(0, len(self.followers))))
                world.pass_time(self.rng.randrange(200))
            value = b"value %d" % number
            request = produce_request({(TOPIC, 0): batch_of(value)}, acks=self._acks)
            connection = world.send(self.leader, request)
            self._asked.append((world.answers.setdefault(connection, []), value))

    def acked(self) -> dict[int, bytes]:
        """What the producer was told is stored, by offset."""
        results = [(each.responses[0].partition_responses[0], value) for told, value in self._asked for each in told]
        return {result.base_offset: value for result, value in results if result.error_code == 0}

    def others_lead(self) -> None:
        """Time for the controller to miss a broker, and for another one to lead."""
        old = self.leader
        self.world.cut.clear()
        self.world.pass_time(2 * SESSION_MS)
        assert self.leader not in (old, -1)

    def power_off(self, *broker_ids: int) -> None:
        seed = self.rng.randrange(1 << 30)
        for broker_id in broker_ids:
            self.world.power_off(broker_id, seed=seed + broker_id)

    def everything_again(self, *, power: bool) -> None:
        """All brokers and the controller ended at once; they are started together.

        What the controller knows counts as stored, as by Kafka's quorum, of which a majority has it on disk.
        """
        storages = self.world.storages
        if power:
            for broker_id in list(storages)[1:]:
                storages[broker_id].power_off(Random(self.rng.random()))
        self.world = World(len(storages) - 1, storages)

    def found(self) -> dict[int, bytes | None]:
        """What a consumer reads when everybody is well again, by offset."""
        world = self.world
        world.cut.clear()
        for broker_id in world.storages:
            if broker_id and broker_id not in world.brokers:
                world.start(broker_id)
        world.pass_time(10 * SESSION_MS)
        assert len(world.partition().isr) == len(world.storages) - 1
        return {record.offset: record.value for record in records_of(world.fetch())}


def killed_and_back(survival: Survival) -> None:
    """Nobody else may lead where nobody else is in sync."""
    leader = survival.leader
    for broker_id in survival.followers:
        survival.world.kill(broker_id)
    survival.world.pass_time(2 * SESSION_MS)
    assert survival.world.partition().isr == (leader,)
    survival.produce()
    epoch = survival.world.partition().leader_epoch
    survival.world.kill(leader)
    if survival.rng.random() < 0.5:
        survival.world.pass_time(2 * SESSION_MS)
        assert survival.leader == -1
    survival.world.start(leader)
    survival.world.pass_time(SESSION_MS)
    assert survival.leader == leader
    assert survival.world.partition().leader_epoch > epoch


def killed_and_replaced(survival: Survival) -> None:
    survival.produce()
    leader = survival.leader
    survival.world.kill(leader)
    if survival.rng.random() < 0.5:
        # Back before it was missed: it is no longer the leader all the same.
        survival.world.cut.clear()
        survival.world.start(leader)
        survival.world.pass_time(SESSION_MS)
        assert survival.leader not in (leader, -1)
    else:
        survival.others_lead()


def one_without_power(survival: Survival) -> None:
    survival.produce()
    whose = survival.leader if survival.rng.random() < 0.7 else survival.rng.choice(survival.followers)
    was_leading = whose == survival.leader
    survival.power_off(whose)
    if was_leading and survival.rng.random() < 0.5:
        survival.others_lead()


def all_killed(survival: Survival) -> None:
    survival.produce()
    survival.everything_again(power=False)


def all_without_power(survival: Survival) -> None:
    survival.produce()
    if survival.rng.random() < 0.2:
        # The operating system's flusher has come by.
        survival.world.cut.clear()
        survival.world.pass_time(2 * FLUSHER_MS)
    survival.everything_again(power=True)


ROWS: dict[str, Callable[[Survival], None]] = {
    "the leader is killed and starts again before another broker leads": killed_and_back,
    "the leader is killed and another one leads": killed_and_replaced,
    "one broker loses power": one_without_power,
    "all brokers are killed at once": all_killed,
    "all brokers lose power at once": all_without_power,
}


def table() -> tuple[list[str], list[list[str]]]:
    """The guide's table: its columns, and its rows of cells."""
    lines = iter(GUIDE.read_text().partition(HEADING)[2].splitlines())
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return cells[0][1:], cells[2:]


CELLS = [(row, column, said) for row, *cells in table()[1] for column, said in zip(table()[0], cells, strict=True)]


def test_the_guide_says_nothing_else() -> None:
    columns, rows = table()
    assert columns == list(COLUMNS)
    assert [row for row, *_ in rows] == list(ROWS)
    assert {said for _, _, said in CELLS} == {"kept", "may be lost"}


@pytest.mark.parametrize(("row", "column", "said"), CELLS)
def test_what_the_guide_says_of_acknowledged_records_is_so(row: str, column: str, said: str) -> None:
    lost: dict[int, dict[int, bytes]] = {}
    acked_at_all = 0
    for seed in SEEDS:
        survival = Survival(seed, *COLUMNS[column])
        ROWS[row](survival)
        found = survival.found()
        acked = survival.acked()
        acked_at_all += len(acked)
        gone = {offset: value for offset, value in acked.items() if found.get(offset) != value}
        if gone:
            lost[seed] = gone
    assert acked_at_all > len(SEEDS), "hardly a record was acknowledged"
    if said == "kept":
        assert lost == {}
    else:
        assert 0 < len(lost) < len(SEEDS)


@pytest.mark.parametrize("brokers", [1, 3])
@pytest.mark.parametrize("clean", [True, False])
def test_after_a_clean_end_a_power_cut_takes_nothing(brokers: int, clean: bool) -> None:
    """With the control: without the clean end, some power cuts take something of what was acknowledged."""
    lost = []
    for seed in SEEDS:
        survival = Survival(seed, 1, {"segment_bytes": 1024}, brokers=brokers)
        survival.produce()
        survival.world.cut.clear()
        if clean:
            survival.world.close()
            survival.world.controller.close()
            survival.world.storages[0].power_off(Random(seed))
        survival.everything_again(power=True)
        found = survival.found()
        assert len(survival.acked()) == RECORDS
        lost += [seed] * any(found.get(offset) != value for offset, value in survival.acked().items())
    assert lost == [] if clean else lost
