"""Transactions from begin to end, in both versions: what is committed is read whole, what is aborted is not read."""

from __future__ import annotations

import pytest

from ottla.broker.topic_names import TRANSACTIONS_TOPIC
from ottla.broker.transactions.markers import MarkerWriter
from ottla.broker.transactions.records import (
    read_transaction_key,
    read_transaction_value,
    transaction_key,
    transaction_value,
)
from ottla.broker.transactions.transaction import TransactionState, new_data
from ottla.faults.fault import make_fault
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

from .transaction_world import Producer, committed_values, listed
from .world import TOPIC, World, batch_of, records_of

both = pytest.mark.parametrize("version", [1, 2])


@pytest.fixture
def world() -> World:
    world = World(3)
    assert world.create_topic(partitions=2, replicas=3) == 0
    return world


@both
def test_a_committed_transaction_is_read_whole_and_an_aborted_one_not_at_all(world: World, version: int) -> None:
    producer = Producer(world, version=version)
    assert producer.init() == 0
    for number, committed in enumerate([True, False, True]):
        for partition in (0, 1):
            assert producer.send(b"a%d" % number, b"b%d" % number, partition=partition) == 0
        assert producer.end(committed) == 0
    for partition in (0, 1):
        assert committed_values(world, partition=partition) == [b"a0", b"b0", b"a2", b"b2"]
        assert len(world.stored(partition=partition)) == 9  # three markers among them
    assert listed(world) == {"t": "CompleteCommit"}


@both
def test_an_open_transaction_holds_readers_of_committed_records_back(world: World, version: int) -> None:
    world.produce(batch_of(b"before"))
    producer = Producer(world, version=version)
    producer.init()
    producer.send(b"open")
    world.produce(batch_of(b"behind"))
    answer = world.fetch(0, isolation_level=1)
    assert (answer.high_watermark, answer.last_stable_offset) == (3, 1)
    assert committed_values(world) == [b"before"]
    waiting = _end(world, 1)
    assert (waiting, _end(world, 0)) == (1, 3)
    producer.commit()
    assert committed_values(world) == [b"before", b"open", b"behind"]
    assert _end(world, 1) == 4


def _end(world: World, isolation_level: int) -> int:
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    message = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation_level, topics=[ListOffsetsTopic(name=TOPIC, partitions=[asked])]
    )
    return int(world.ask(world.leader(), message).topics[0].partitions[0].offset)


def test_a_waiting_reader_is_woken_by_the_marker(world: World) -> None:
    from .world import fetch_request

    producer = Producer(world)
    producer.init()
    producer.send(b"v")
    connection = world.send(world.leader(), fetch_request(0, isolation_level=1, max_wait_ms=60_000), version=12)
    assert connection not in world.answers
    producer.commit()
    answer = world.answers[connection][0].responses[0].partitions[0]
    assert [record.value for record in records_of(answer)][:1] == [b"v"]


def test_version_2_raises_the_epoch_with_every_transaction(world: World) -> None:
    producer = Producer(world)
    producer.init()
    epochs = [producer.epoch]
    for _ in range(3):
        producer.send(b"v")
        producer.commit()
        epochs.append(producer.epoch)
    assert epochs == [0, 1, 2, 3]


def test_version_1_keeps_the_epoch_and_goes_on_counting(world: World) -> None:
    producer = Producer(world, version=1)
    producer.init()
    for _ in range(3):
        assert producer.send(b"v") == 0
        assert producer.commit() == 0
    assert (producer.epoch, producer.sequences[TOPIC, 0]) == (0, 3)


@both
def test_a_new_producer_fences_the_older_one_and_aborts_its_transaction(world: World, version: int) -> None:
    old = Producer(world, version=version)
    old.init()
    old.send(b"lost")
    new = Producer(world, version=version)
    assert new.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert new.init() == 0
    assert new.producer_id == old.producer_id
    assert new.epoch > old.epoch
    assert old.send(b"zombie") in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
    assert old.commit() == ErrorCode.PRODUCER_FENCED
    assert old.end(True, api_version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert new.send(b"kept") == 0
    assert new.commit() == 0
    assert committed_values(world) == [b"kept"]


def test_the_same_end_again_is_answered_as_done_and_the_other_end_refused(world: World) -> None:
    producer = Producer(world, version=1)
    producer.init()
    producer.send(b"v")
    assert producer.commit() == 0
    assert producer.commit() == 0
    assert producer.abort() == ErrorCode.INVALID_TXN_STATE


def test_version_2_tells_a_repeated_end_from_a_new_one_by_its_epoch(world: World) -> None:
    producer = Producer(world)
    producer.init()
    producer.send(b"v")
    assert producer.commit() == 0
    assert producer.epoch == 1
    producer.epoch = 0
    assert producer.abort() == ErrorCode.INVALID_TXN_STATE
    assert producer.commit() == 0
    assert producer.epoch == 1
    assert producer.commit() == ErrorCode.INVALID_TXN_STATE
    assert producer.abort() == 0
    assert producer.epoch == 2
    producer.epoch = 0
    assert producer.commit() == ErrorCode.PRODUCER_FENCED


@both
def test_nothing_begun_cannot_be_committed(world: World, version: int) -> None:
    producer = Producer(world, version=version)
    producer.init()
    assert producer.commit() == ErrorCode.INVALID_TXN_STATE
    assert producer.abort() == (ErrorCode.INVALID_TXN_STATE if version == 1 else 0)


def test_a_batch_of_a_partition_that_was_not_added_is_refused(world: World) -> None:
    producer = Producer(world, version=1)
    producer.init()
    assert producer.produce(b"v") == ErrorCode.TRANSACTION_ABORTABLE
    assert producer.produce(b"v", api_version=10) == ErrorCode.INVALID_TXN_STATE
    producer.add((TOPIC, 0))
    assert producer.produce(b"v") == 0


def test_a_late_batch_does_not_open_the_transaction_again(world: World) -> None:
    producer = Producer(world)
    producer.init()
    producer.send(b"v")
    producer.commit()
    assert producer.produce(b"late", epoch=0, sequence=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert world.fetch(0, isolation_level=1).last_stable_offset == 2


def test_a_retry_that_comes_after_its_transaction_ended_is_asked_about_like_any_other(world: World) -> None:
    producer = Producer(world, version=1)
    producer.init()
    producer.send(b"v")
    producer.commit()
    assert producer.produce(b"v", sequence=0) == ErrorCode.TRANSACTION_ABORTABLE
    # From this version on the question adds the partition: there is a transaction again, though nothing is stored.
    assert producer.produce(b"v", sequence=0, api_version=12) == 0
    assert producer.state == "Ongoing"
    assert producer.commit() == 0
    assert committed_values(world) == [b"v"]


def test_without_verification_the_producer_is_taken_at_its_word() -> None:
    world = World(1, transaction_partition_verification_enable=False)
    world.create_topic()
    producer = Producer(world, version=1)
    producer.init()
    assert producer.produce(b"v") == 0
    assert world.fetch(0, isolation_level=1).last_stable_offset == 0


def test_a_transactional_batch_needs_a_transactional_id(world: World) -> None:
    producer = Producer(world)
    producer.init()
    assert producer.produce(b"v", transactional_id=None) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert producer.send(b"v") == 0
    assert producer.produce(b"w", sequence=1, is_transactional=False) == ErrorCode.INVALID_TXN_STATE


@both
def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(world: World, version: int) -> None:
    producer = Producer(world, version=version, timeout_ms=5000)
    producer.init()
    producer.send(b"v")
    world.pass_time(4900)
    assert producer.state == "Ongoing"
    world.pass_time(200)
    assert producer.state == "CompleteAbort"
    assert committed_values(world) == []
    assert world.fetch(0, isolation_level=1).last_stable_offset == 2
    # In version 2 the epoch says that it speaks of the transaction before, which was not committed.
    assert producer.commit() == (ErrorCode.PRODUCER_FENCED if version == 1 else ErrorCode.INVALID_TXN_STATE)
    assert producer.send(b"late") in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeouts_out_of_range_are_refused(world: World, timeout_ms: int) -> None:
    assert Producer(world, timeout_ms=timeout_ms).init() == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_a_producer_that_goes_on_gets_the_next_epoch_once(world: World) -> None:
    producer = Producer(world)
    producer.init()
    assert producer.init(keep=True) == 0
    assert producer.epoch == 1
    producer.epoch = 0
    assert producer.init(keep=True) == 0
    assert producer.epoch == 1  # its first question was answered, the answer lost
    Producer(world).init()
    assert producer.init(keep=True) == ErrorCode.PRODUCER_FENCED
    assert producer.init(keep=True, api_version=3) == ErrorCode.INVALID_PRODUCER_EPOCH


@both
def test_used_up_epochs_lead_to_a_new_producer_id(world: World, version: int) -> None:
    producer = Producer(world, version=version)
    producer.init()
    first = producer.producer_id
    transaction = world.brokers[producer.node].transactions.known("t", world.now_us)
    transaction.data = transaction.data._replace(epoch=32_766)
    producer.epoch = 32_766
    if version == 2:
        assert producer.send(b"v") == 0
        assert producer.commit() == 0
    else:
        assert producer.init() == 0
    assert producer.producer_id != first
    assert producer.epoch == 0
    producer.added = {}
    assert producer.send(b"w") == 0
    assert producer.commit() == 0
    assert committed_values(world)[-1:] == [b"w"]


def test_coordinators_are_found_and_others_say_so(world: World) -> None:
    producer = Producer(world)
    node = producer.node
    world.controller.image.topics[TRANSACTIONS_TOPIC]
    from ottla.protocol.messages.end_txn import EndTxnRequest

    other = next(broker_id for broker_id in world.brokers if broker_id != node)
    answer = world.ask(other, EndTxnRequest(transactional_id="t"), version=5)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    assert producer.commit() == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert producer.describe().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_partitions_that_do_not_exist_are_not_added_nor_those_beside_them(world: World) -> None:
    producer = Producer(world, version=1)
    producer.init()
    assert producer.add((TOPIC, 0), (TOPIC, 9)) == ErrorCode.OPERATION_NOT_ATTEMPTED
    assert producer.describe().topics == []


def test_transactions_are_described_and_listed(world: World) -> None:
    producer, idle = Producer(world), Producer(world, "idle")
    producer.init()
    idle.init()
    producer.send(b"v")
    told = producer.describe()
    assert (told.transaction_state, told.producer_id, told.transaction_timeout_ms) == (
        "Ongoing", producer.producer_id, 60_000,
    )  # fmt: skip
    assert [(topic.topic, topic.partitions) for topic in told.topics] == [(TOPIC, [0])]
    assert idle.describe().transaction_start_time_ms == -1
    assert listed(world) == {"t": "Ongoing", "idle": "Empty"}
    assert listed(world, state_filters=["Ongoing"]) == {"t": "Ongoing"}
    assert listed(world, producer_id_filters=[idle.producer_id]) == {"idle": "Empty"}
    assert listed(world, transactional_id_pattern="i.*") == {"idle": "Empty"}
    assert listed(world, duration_filter=1000) == {}
    world.pass_time(2000)
    assert listed(world, duration_filter=1000) == {"t": "Ongoing"}
    asked = DescribeProducersRequest(topics=[TopicRequest(name=TOPIC, partition_indexes=[0])])
    state = world.ask(world.leader(), asked, version=0).topics[0].partitions[0].active_producers[0]
    assert (state.producer_id, state.last_sequence, state.current_txn_start_offset) == (producer.producer_id, 0, 0)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_clients_learn_the_transaction_version_from_the_features(level: int) -> None:
    world = World(1, transaction_version=level)
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    answer = world.ask(1, request, version=4)
    told = {each.name: each.max_version_level for each in answer.finalized_features}
    assert told == {"group.version": 1, **({"transaction.version": level} if level else {})}
    supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    assert supported == {"group.version": (0, 1), "transaction.version": (0, 2)}
    older = world.ask(1, request, version=3)
    assert (older.supported_features, older.finalized_features) == ([], answer.finalized_features)
    assert world.ask(1, request, version=2).finalized_features == []


@both
def test_a_restarted_cluster_goes_on_with_open_and_half_ended_transactions(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(1)
    world.create_topic(partitions=2)
    first, second = (
        Producer(world, "open", version=version, timeout_ms=5000),
        Producer(world, "sealed", version=version),
    )
    first.init()
    second.init()
    first.send(b"lost")
    second.send(b"kept", partition=1)
    with monkeypatch.context() as until_then:
        until_then.setattr(MarkerWriter, "write", lambda *_: None)
        assert second.commit() == 0
        assert second.state == "PrepareCommit"
    again = World(1, world.storages)
    first.world = second.world = again
    assert second.state == "CompleteCommit"
    assert committed_values(again, partition=1) == [b"kept"]
    assert first.state == "Ongoing"
    again.pass_time(6000)
    assert first.state == "CompleteAbort"
    assert committed_values(again) == []


@pytest.mark.parametrize("ahead_h", [-2, 0, 2])
def test_a_transaction_begun_under_a_wrong_clock_ends_in_time_under_the_right_one(ahead_h: int) -> None:
    world = World(1)
    world.create_topic()
    world.brokers[1].wall_offset_us += ahead_h * 3_600_000_000
    producer = Producer(world, timeout_ms=5000)
    producer.init()
    producer.send(b"lost")
    producer.world = again = World(1, world.storages)
    again.pass_time(6000)
    assert producer.state == "CompleteAbort"
    assert committed_values(again) == []


def test_a_topic_deleted_meanwhile_needs_no_marker(world: World) -> None:
    from ottla.protocol.messages.delete_topics import DeleteTopicsRequest

    world.create_topic("gone")
    producer = Producer(world)
    producer.init()
    producer.send(b"v")
    producer.send(b"v", topic="gone")
    world.ask(1, DeleteTopicsRequest(topic_names=["gone"]), version=5)
    assert producer.commit() == 0
    assert producer.state == "CompleteCommit"
    assert committed_values(world) == [b"v"]


def test_markers_wait_for_a_leader_that_cannot_be_reached(world: World) -> None:
    producer = Producer(world)
    producer.init()
    for partition in (0, 1):
        producer.send(b"v", partition=partition)
    world.unreachable = {next(b for b in (world.leader(TOPIC, 0), world.leader(TOPIC, 1)) if b != producer.node)}
    world.pass_time(100)
    world.unreachable = set()
    assert producer.commit() == 0
    world.pass_time(1000)
    assert producer.state == "CompleteCommit"
    assert committed_values(world, partition=0) == committed_values(world, partition=1) == [b"v"]


@both
def test_a_partition_with_a_newer_epoch_needs_no_marker_of_a_coordinator_that_has_forgotten_it(
    world: World, version: int
) -> None:
    producer = Producer(world, version=version)
    producer.init()
    producer.send(b"v")
    # As after a power cut that took what the coordinator wrote of epoch 9, and not what the partition was told.
    place = WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=9,
        transaction_result=False,
        topics=[place],
        coordinator_epoch=0,
        transaction_version=version,
    )
    answer = world.ask(world.leader(TOPIC, 0), WriteTxnMarkersRequest(markers=[marker]), version=2)
    assert answer.markers[0].topics[0].partitions[0].error_code == 0
    assert producer.abort() == 0
    world.pass_time(1000)
    assert producer.state == "CompleteAbort"
    assert producer.init() == 0


def test_a_batch_that_comes_before_the_marker_of_the_transaction_before_waits_for_it(world: World) -> None:
    world.faults.add(make_fault("delay_request", api="WriteTxnMarkers", delay_ms=10))
    producer = Producer(world)
    producer.init()
    place = next(index for index in (0, 1) if world.leader(TOPIC, index) != producer.node)
    for value in (b"one", b"two"):
        connection = world.last_connection + 1
        answer = producer.send(value, partition=place)
        if answer == "waiting":
            # The coordinator is asked again after 20 ms, when the marker is there.
            world.pass_time(50)
            (answered,) = world.answers[connection]
            answer = answered.responses[0].partition_responses[0].error_code
        assert answer == 0
        assert producer.commit() == 0
    world.pass_time(50)
    assert committed_values(world, partition=place) == [b"one", b"two"]


@both
def test_while_markers_are_written_every_end_is_to_be_asked_for_again(version: int) -> None:
    """As in Apache Kafka 4.3.1: the epoch is the producer's own, so the producer is not fenced."""
    world = World(1)
    world.create_topic()
    producer = Producer(world, version=version)
    producer.init()
    assert producer.send(b"v") == 0
    world.faults.add(make_fault("delay_request", api="WriteTxnMarkers", delay_ms=200))
    assert producer.commit() == 0
    assert producer.state == "PrepareCommit"
    assert producer.abort() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert producer.commit() == ErrorCode.CONCURRENT_TRANSACTIONS
    world.pass_time(500)
    assert producer.abort() == (0 if version == 2 else ErrorCode.INVALID_TXN_STATE)
    assert committed_values(world) == [b"v"]


@pytest.mark.parametrize("epoch", [7, 32_766])
def test_the_identity_that_a_producer_was_given_is_not_refused_while_markers_are_written(epoch: int) -> None:
    """As by Apache Kafka 4.3.1 (KAFKA-18660): a new producer id is the id's own only when all markers are written."""
    world = World(1)
    world.create_topic()
    producer, zombie = Producer(world), Producer(world)
    producer.init()
    transaction = world.brokers[producer.node].transactions.known("t", world.now_us)
    transaction.data = transaction.data._replace(epoch=epoch)
    zombie.producer_id, zombie.epoch = producer.producer_id, epoch - 2
    producer.epoch = epoch
    assert producer.send(b"one") == 0
    world.faults.add(make_fault("delay_request", api="WriteTxnMarkers", delay_ms=200))
    assert producer.commit() == 0
    assert producer.state == "PrepareCommit"
    assert (producer.producer_id, producer.epoch) == ((zombie.producer_id, 8) if epoch == 7 else (1, 0))
    assert producer.abort() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert producer.add((TOPIC, 0)) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert zombie.abort() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert zombie.add((TOPIC, 0)) == ErrorCode.CONCURRENT_TRANSACTIONS
    world.pass_time(500)
    refusals = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    assert zombie.abort() == zombie.add((TOPIC, 0)) == refusals[epoch != 7]
    assert producer.abort() == 0
    assert producer.send(b"two") == 0
    assert producer.commit() == 0
    world.pass_time(500)
    assert committed_values(world) == [b"one", b"two"]


@pytest.mark.parametrize(("max_ms", "outcome"), [(100, ErrorCode.CONCURRENT_TRANSACTIONS), (400, 0)])
def test_how_long_a_batch_waits_for_the_marker_before_it_can_be_set(max_ms: int, outcome: int) -> None:
    world = World(1, add_partitions_to_txn_retry_backoff_ms=50, add_partitions_to_txn_retry_backoff_max_ms=max_ms)
    world.create_topic()
    producer = Producer(world)
    producer.init()
    assert producer.send(b"one") == 0
    world.faults.add(make_fault("delay_request", api="WriteTxnMarkers", delay_ms=200))
    assert producer.commit() == 0
    connection = world.last_connection + 1
    assert producer.send(b"two") == "waiting"
    world.pass_time(500)
    (answered,) = world.answers[connection]
    assert answered.responses[0].partition_responses[0].error_code == outcome


def test_unused_transactional_ids_are_forgotten() -> None:
    world = World(
        1,
        transactional_id_expiration_ms=10_000,
        transaction_remove_expired_transaction_cleanup_interval_ms=1000,
    )
    world.create_topic()
    idle, busy = Producer(world, "idle"), Producer(world, "busy")
    idle.init()
    busy.init()
    busy.send(b"v")
    world.pass_time(12_000)
    assert listed(world) == {"busy": "Ongoing"}
    assert listed(World(1, world.storages)) == {"busy": "Ongoing"}


def test_a_cluster_of_version_1_raises_epochs_for_fencing_alone() -> None:
    world = World(1, transaction_version=1)
    world.create_topic()
    old = Producer(world, version=1, timeout_ms=5000)
    old.init()
    for _ in range(2):
        assert old.send(b"kept") == 0
        assert old.commit() == 0
    assert old.epoch == 0
    old.send(b"lost")
    world.pass_time(6000)
    assert (old.state, old.describe().producer_epoch) == ("CompleteAbort", 1)
    assert old.commit() == ErrorCode.PRODUCER_FENCED
    assert old.init(keep=True) == ErrorCode.PRODUCER_FENCED
    new = Producer(world, version=1)
    assert (new.init(), new.epoch) == (0, 2)
    assert committed_values(world) == [b"kept", b"kept"]
    again = World(1, world.storages, transaction_version=1)  # its records are of layout version 0
    new.world = again
    assert (new.init(), new.epoch) == (0, 3)


def test_stored_transactions_read_back_as_they_were_written() -> None:
    data = new_data(7, 60_000, 1_000)._replace(
        epoch=3,
        previous_producer_id=6,
        next_producer_id=8,
        state=TransactionState.PREPARE_ABORT,
        partitions=(("a", 0), ("a", 5), ("b", 1)),
        started_ms=900,
        client_version=2,
    )
    assert read_transaction_value(transaction_value(data, 1)) == data
    plain = data._replace(previous_producer_id=-1, next_producer_id=-1, client_version=0)
    assert read_transaction_value(transaction_value(data, 0)) == plain
    assert read_transaction_key(transaction_key("t")) == "t"
    with pytest.raises(MalformedMessage):
        read_transaction_value(transaction_value(data, 1)[:-9])
