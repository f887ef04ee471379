"""Topics nothing is sent to any more are not kept up to date for ever (KIP-526)."""

from __future__ import annotations

from ottla.producer.events import BatchAcked

IDLE_MS = 60_000
AGE_MS = 40_000


def two_topics(make_world, **settings):
    """A producer that has sent to two topics, an instant ago."""
    topics = {"busy": [1], "quiet": [1]}
    world = make_world(topics=topics, metadata_max_idle_ms=IDLE_MS, metadata_max_age_ms=AGE_MS, **settings)
    for topic in topics:
        world.want(topic)
        world.send("first", topic=topic)
    world.settle()
    return world


def let_pass(world, ms, *, sending_to=()):
    """Let time pass in steps of a second, answering at once what is sent."""
    for _ in range(ms // 1000):
        for topic in sending_to:
            world.send("more", topic=topic)
        world.pass_ms(1000)
        world.store_all()


def test_a_topic_nobody_sends_to_is_forgotten_when_metadata_comes_after_its_time(make_world):
    world = two_topics(make_world)
    let_pass(world, 70_000, sending_to=["busy"])
    assert world.topics_forgotten == []
    let_pass(world, 15_000, sending_to=["busy"])
    assert world.topics_forgotten == ["quiet"]
    assert "quiet" not in world.core.metadata.topics
    let_pass(world, 45_000, sending_to=["busy"])
    assert world.topics_asked_for == ["busy"]
    assert world.topics_forgotten == ["quiet"]


def test_what_is_sent_to_a_forgotten_topic_finds_it_again_and_goes_on_counting(make_world):
    world = two_topics(make_world)
    let_pass(world, 90_000, sending_to=["busy"])
    assert world.topics_forgotten == ["quiet"]
    late = world.send("late", topic="quiet")
    world.settle()
    assert isinstance(world.outcome(late), BatchAcked)
    assert world.logs["quiet", 0].values == [b"first", b"late"]
    known_before = len(world.topics_known)
    world.want("quiet")
    assert [known.topic for known in world.topics_known[known_before:]] == ["quiet"]


def test_a_topic_with_batches_under_way_is_kept(make_world):
    world = two_topics(make_world, delivery_timeout_ms=1_000_000, request_timeout_ms=900_000)
    held = world.send("held", topic="quiet")
    for _ in range(120):
        world.pass_ms(1000)
    assert world.outcome(held) is None
    assert "quiet" not in world.topics_forgotten
    world.store_all()
    assert isinstance(world.outcome(held), BatchAcked)


def test_a_topic_somebody_waits_for_is_kept(make_world):
    world = two_topics(make_world)
    world.want("missing")
    let_pass(world, 90_000, sending_to=["busy"])
    assert world.topics_forgotten == ["quiet"]
    assert "missing" in world.topics_asked_for


def test_topics_that_come_one_by_one_are_each_announced_once_and_looked_at_alone(make_world):
    names = [f"topic-{number}" for number in range(30)]
    world = make_world(topics={name: [1, -1] for name in names}, partitioner_availability_timeout_ms=1000)
    for name in names:
        world.want(name)
        assert world.topics_asked_for == [name]
    assert [known.topic for known in world.topics_known] == names
    assert [told.topic for told in world.loads] == names


def test_a_known_topic_that_is_wanted_again_is_announced_without_a_question(make_world):
    world = two_topics(make_world)
    asked_before, known_before = world.metadata_requests, len(world.topics_known)
    world.want("quiet")
    assert world.metadata_requests == asked_before
    assert [known.topic for known in world.topics_known[known_before:]] == ["quiet"]
