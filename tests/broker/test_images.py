"""What a change of the cluster costs: as much as it says, on the controller and on every broker."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ottla.broker.controller.state import CHANGES_FILE, ControllerState
from ottla.broker.events import BrokerAddress, ImagePublished, PartitionImage, TopicImage
from ottla.broker.topic_map import TopicMap
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest

from .world import TOPIC, MemoryStorage, World, batch_of

_FEW, _MANY = 20, 600


def topic_image(name: str, partitions: int = 1, *, number: int = 0) -> TopicImage:
    parts = tuple(PartitionImage(1, 0, (1,), (1,)) for _ in range(partitions))
    return TopicImage(name, number.to_bytes(16, "big"), parts)


@pytest.mark.parametrize("seed", range(20))
def test_every_map_of_topics_keeps_what_it_said(seed: int) -> None:
    """Against copies, whichever of the maps is looked at, and whenever."""
    rng = random.Random(seed)
    maps, copies = [TopicMap({})], [dict[str, TopicImage]()]
    for number in range(120):
        at = len(maps) - 1 if rng.random() < 0.9 else rng.randrange(len(maps))
        names = rng.sample("abcdefghij", rng.randint(1, 3))
        changes = {name: topic_image(name, number=number) if rng.random() < 0.7 else None for name in names}
        maps.append(maps[at].followed_by(changes))
        after = {**copies[at], **{name: topic for name, topic in changes.items() if topic is not None}}
        copies.append({name: topic for name, topic in after.items() if changes.get(name, topic) is not None})
        looked = rng.randrange(len(maps))
        name = rng.choice("abcdefghij")
        assert maps[looked].get(name) is copies[looked].get(name)
        assert (name in maps[looked]) == (name in copies[looked])
        if rng.random() < 0.2:
            assert dict(maps[looked]) == copies[looked]
    assert [dict(each) for each in maps] == copies
    assert [len(each) for each in maps] == [len(each) for each in copies]


def state_of(topics: int) -> ControllerState:
    state = ControllerState([BrokerAddress(1, "localhost", 9092)], MemoryStorage(), random.Random(1))
    state.change({f"t{number}": topic_image(f"t{number}", number=number) for number in range(topics)})
    state.save()
    return state


def test_a_change_takes_no_more_memory_with_more_topics() -> None:
    taken = []
    for topics in (_FEW, 4000):
        state = state_of(topics)
        after = PartitionImage(1, 1, (1,), (1,), 1)
        state.change_partitions({"t7": {0: after}})
        tracemalloc.start()
        state.change_partitions({"t8": {0: after}})
        taken.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert taken[1] < taken[0] + 2000


def test_a_change_writes_down_what_it_says() -> None:
    sizes = []
    for partitions in (1, 4000):
        storage = MemoryStorage()
        state = ControllerState([BrokerAddress(1, "localhost", 9092)], storage, random.Random(1))
        state.change({TOPIC: topic_image(TOPIC, partitions)})
        state.save()
        state.change_partitions({TOPIC: {0: PartitionImage(1, 1, (1,), (1,), 1)}})
        sizes.append(len(storage.contents[CHANGES_FILE]))
    assert sizes[0] == sizes[1]


class Counted(Mapping[str, TopicImage]):
    """Topics that count how often they are looked at."""

    def __init__(self, topics: Mapping[str, TopicImage], looks: list[int]) -> None:
        self._topics, self._looks = topics, looks

    def __getitem__(self, name: str) -> TopicImage:
        self._looks[0] += 1
        return self._topics[name]

    def __iter__(self) -> Iterator[str]:
        self._looks[0] += len(self._topics)
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)


class CountedPartitions(tuple[PartitionImage, ...]):
    """Partitions that count how often they are looked at."""

    looks: list[int]

    def __getitem__(self, index: Any) -> Any:
        self.looks[0] += 1
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[PartitionImage]:
        self.looks[0] += len(self)
        return super().__iter__()


def looks_at_an_image(world: World, topic: str) -> int:
    """How often a broker looks at topics and partitions of an image in which the leader of one partition is new."""
    looks = [0]
    image = world.controller.image
    part = image.topics[topic].partitions[0]
    parts = CountedPartitions(
        (
            PartitionImage(part.leader, part.leader_epoch + 1, part.replicas, part.isr, part.partition_epoch + 1),
            *image.topics[topic].partitions[1:],
        )
    )
    parts.looks = looks
    world.controller.state.change_partitions({topic: {0: parts[0]}})
    image = world.controller.image
    changed = TopicImage(topic, image.topics[topic].topic_id, parts, image.topics[topic].configs)
    topics = Counted({**image.topics, topic: changed}, looks)
    looks[0] = 0
    world.brokers[1].receive(ImagePublished(image.but(topics=topics)), world.now_us)
    assert world.brokers[1].topics[topic][0].leader_epoch == part.leader_epoch + 1
    return looks[0]


@pytest.mark.parametrize("partitions", [1, 40])
def test_a_broker_looks_at_what_an_image_changes(partitions: int) -> None:
    world = World(1)
    for number in range(3):
        world.create_topic(f"t{number}", partitions)
    few = looks_at_an_image(world, "t0")
    for number in range(3, 40):
        world.create_topic(f"t{number}", partitions)
    assert looks_at_an_image(world, "t1") == few < 10


def test_who_has_missed_an_image_takes_the_next_one_as_a_whole() -> None:
    world = World(2)
    world.create_topic("kept", 2, 2)
    world.create_topic("deleted", 2, 2)
    world.frozen_images.add(2)
    world.ask(1, DeleteTopicsRequest(topic_names=["deleted"]))
    world.create_topic("new", 2, 2)
    world.frozen_images.clear()
    world.create_topic("last", 1, 2)
    assert list(world.brokers[2].topics) == ["kept", "new", "last"]
    for name in ("kept", "new", "last"):
        assert world.produce(batch_of(b"a"), topic=name).error_code == 0


def test_names_that_differ_in_dots_and_underscores_alone_are_refused_until_the_first_is_gone() -> None:
    world = World(1)
    assert world.create_topic("a.b") == 0
    assert world.create_topic("a_b") != 0
    world.ask(1, DeleteTopicsRequest(topic_names=["a.b"]))
    assert world.create_topic("a_b") == 0
    restarted = World(1, world.storages)
    assert restarted.create_topic("a.b") != 0


def test_topics_are_found_by_id_after_every_change() -> None:
    world = World(1)
    world.create_topic("t", partitions=2)
    first = world.controller.image.topics["t"].topic_id
    assert world.brokers[1].replicas.topic_ids.name_of(first) == "t"
    world.ask(1, DeleteTopicsRequest(topic_names=["t"]))
    assert world.brokers[1].replicas.topic_ids.name_of(first) is None
    world.ask(1, CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]))
    second = world.controller.image.topics["t"].topic_id
    found = [world.brokers[1].replicas.topic_ids.name_of(each) for each in (first, second)]
    assert (first != second, found) == (True, [None, "t"])
    assert world.controller.state.topic_with(first) is None
