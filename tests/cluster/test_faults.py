"""Every fault of `cluster.faults` over real sockets: what clients meet, what is stored, what fired, and healing."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator

import pytest
from tests.client.in_time import wait_until

import ottla
from ottla.errors import DeliveryError, OttlaError, UserMistake
from ottla.faults.fault import make_fault

SHORT = {"request_timeout_ms": 400, "retry_backoff_ms": 20, "linger_ms": 0, "delivery_timeout_ms": 20_000}
# For what must not be sent again because a machine that is busy answers late.
UNHURRIED = {"request_timeout_ms": 15_000}
# By the cluster's clock, which stands still until a test advances it; brokers round such deadlines up.
LATE_MS, UNTIL_LATE_S = 60_000, 61


@pytest.fixture(scope="module")
def three() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(3, settings={"broker_session_timeout_ms": 600, "broker_heartbeat_interval_ms": 100}) as cluster:
        yield cluster


@pytest.fixture
def topic(three: ottla.Cluster, request: pytest.FixtureRequest) -> str:
    name = f"t-{abs(hash(request.node.nodeid))}"
    three.create_topic(name, partitions=1)
    return name


@pytest.fixture
def clock() -> ottla.Clock:
    return ottla.Clock(stopped=True)


@pytest.fixture
def clocked(clock: ottla.Clock) -> Iterator[ottla.Cluster]:
    """A cluster of one broker that uses this clock."""
    with ottla.Cluster(1, clock=clock) as cluster:
        yield cluster


def values(cluster: ottla.Cluster, topic: str) -> list[str]:
    table = ottla.read_table(cluster.bootstrap_servers, topic)
    return [value.decode() for value in table.column("value").to_pylist()]


def leaders_end(cluster: ottla.Cluster, topic: str) -> int:
    """Where the leader's log ends; readers see a record a little later, when its followers have it, too."""
    (partition,) = cluster.replicas(topic)
    return next(int(each["log_end_offset"]) for each in partition["replicas"] if each["is_leader"])


def come_to(cluster: ottla.Cluster, topic: str, count: int) -> list[str]:
    """The values, as soon as there are so many; what a fault holds back comes when its time has come."""
    deadline_s = time.monotonic() + 20
    while len(found := values(cluster, topic)) < count and time.monotonic() < deadline_s:
        continue
    return found


def producer(cluster: ottla.Cluster, **settings: object) -> ottla.Producer:
    return ottla.Producer(cluster.bootstrap_servers, **(SHORT | settings))


@pytest.mark.parametrize("verb", ["drop_ack", "drop_request", "redeliver", "lose_ack", "lose_request"])
@pytest.mark.parametrize("idempotent", [True, False])
def test_what_the_network_does_to_one_request(three: ottla.Cluster, topic: str, verb: str, idempotent: bool) -> None:
    timeout = {} if verb.startswith("drop") else UNHURRIED
    with getattr(three.faults, verb)(topic=topic, nth=1) as fault:
        with producer(three, enable_idempotence=idempotent, **timeout) as sender:
            sender.send(topic, "a").result(20)
        assert fault.fired == 1
    # Each request leaves a copy; a retry that is answered late is sent again, too, where timeouts are short.
    asked = fault.matched
    if verb.startswith("drop"):
        assert asked >= 2
    else:
        assert asked == (1 if verb == "redeliver" else 2)
    copies = 1 if idempotent else {"redeliver": 2, "drop_request": asked - 1, "lose_request": 1}.get(verb, asked)
    assert come_to(three, topic, copies) == ["a"] * copies


def test_a_request_that_comes_again_is_stored_again_wherever_its_batch_stands(three: ottla.Cluster, topic: str) -> None:
    with producer(three, enable_idempotence=False) as sender:
        sender.send(topic, "a").result(20)
        with three.faults.redeliver(topic=topic, nth=1) as fault:
            sender.send(topic, "b").result(20)
            assert fault.fired == 1
        assert come_to(three, topic, 3) == ["a", "b", "b"]


def test_a_late_request_comes_after_its_retry(clocked: ottla.Cluster, clock: ottla.Clock, kafka_name: str) -> None:
    clocked.create_topic(kafka_name)
    wanted = []
    with producer(clocked, enable_idempotence=False) as sender:
        for value in ("a", "b"):
            with clocked.faults.delay_request(topic=kafka_name, nth=1, delay_ms=LATE_MS) as fault:
                sender.send(kafka_name, value).result(20)
                assert fault.fired == 1
            # A retry that is answered late is sent again.
            assert fault.matched >= 2
            wanted += [value] * (fault.matched - 1)
            assert come_to(clocked, kafka_name, len(wanted)) == wanted
            clock.advance(UNTIL_LATE_S)
            wanted.append(value)
            assert come_to(clocked, kafka_name, len(wanted)) == wanted


def test_a_late_request_comes_even_where_the_fault_was_healed_meanwhile(
    clocked: ottla.Cluster, clock: ottla.Clock, kafka_name: str
) -> None:
    clocked.create_topic(kafka_name)
    with producer(clocked, enable_idempotence=False) as sender, producer(clocked, **UNHURRIED) as other:
        with clocked.faults.delay_request(topic=kafka_name, delay_ms=LATE_MS, times=1) as fault:
            late = sender.send(kafka_name, "late")
            late.result(20)
            assert fault.fired == 1
        # As above.
        retries = fault.matched - 1
        # Whoever comes after the healing is not held up by what is still on its way.
        assert other.send(kafka_name, "at once").result(20).offset == retries
    clock.advance(UNTIL_LATE_S)
    assert come_to(clocked, kafka_name, retries + 2) == [*["late"] * retries, "at once", "late"]


@pytest.mark.parametrize("moment", ["request", "append", "ack"])
@pytest.mark.parametrize("verb", ["kill", "power_off"])
def test_a_leader_ended_by_a_request_loses_nothing_that_all_replicas_acknowledge(
    three: ottla.Cluster, topic: str, verb: str, moment: str
) -> None:
    leader = three.leader(topic, 0)
    with getattr(three.faults, verb)(topic=topic, nth=5, moment=moment) as fault:
        with producer(three, acks="all") as sender:
            for number in range(20):
                sender.send(topic, str(number)).result(20)
        assert fault.fired == 1
        assert three.brokers()[leader] == "down"
        assert three.leader(topic, 0) != leader
    assert three.brokers()[leader] == "running", "the fault is over, and so is what it did"
    three.await_isr(topic, 0, 3)
    assert values(three, topic) == [str(number) for number in range(20)]


def test_a_paused_leader_goes_on_as_a_follower(three: ottla.Cluster, topic: str) -> None:
    leader = three.leader(topic, 0)
    with three.faults.pause(topic=topic, nth=3) as fault:
        with producer(three, acks="all") as sender:
            for number in range(6):
                sender.send(topic, str(number)).result(20)
        assert fault.fired == 1
        assert three.brokers()[leader] == "paused"
    three.await_isr(topic, 0, 3)
    assert values(three, topic) == [str(number) for number in range(6)]


def test_a_full_disk_is_told_and_after_it_all_is_well(three: ottla.Cluster, topic: str) -> None:
    leader = three.leader(topic, 0)
    with three.faults.full_disk(leader) as fault:
        with producer(three, retries=0, enable_idempotence=False, acks=1, **UNHURRIED) as sender:
            error = sender.send(topic, "a").exception(20)
        assert "KAFKA_STORAGE_ERROR" in str(error)
        assert fault.fired >= 1
    with producer(three) as sender:
        sender.send(topic, "b").result(20)
    assert values(three, topic) == ["b"]


def test_a_slow_disk_delays_what_is_written_until_it_is_healed(three: ottla.Cluster) -> None:
    """The broker dates what it appends, so how late that was can be read from the log: no sooner than the delay."""
    three.create_topic("slow", partitions=1, configs={"message.timestamp.type": "LogAppendTime"})
    sent_s = []
    with producer(three, **UNHURRIED) as sender:
        with three.faults.slow_disk(three.leader("slow", 0), delay_ms=500) as fault:
            for value in ("a", "b"):
                sent_s.append(time.time())
                sender.send("slow", value).result(20)
            assert fault.fired >= 2
        sender.send("slow", "c").result(20)
    table = ottla.read_table(three.bootstrap_servers, "slow")
    assert table.column("value").to_pylist() == [b"a", b"b", b"c"]
    appended_s = [each.timestamp() for each in table.column("timestamp").to_pylist()]
    # Records are dated to the millisecond, and clocks are set right by a little.
    assert [appended >= sent + 0.49 for sent, appended in zip(sent_s, appended_s, strict=False)] == [True, True]


def test_what_was_sent_without_acks_is_stored_when_the_producer_is_closed_before_a_slow_disk(
    three: ottla.Cluster, topic: str
) -> None:
    """The question that a producer without acks asks before it closes does not pass what it wrote."""
    with three.faults.slow_disk(three.leader(topic, 0), delay_ms=400) as fault:
        sender = producer(three, acks=0, enable_idempotence=False, **UNHURRIED)
        sender.send(topic, "a")
        sender.close()
        assert leaders_end(three, topic) == 1
        assert fault.fired >= 1


def test_what_is_held_up_keeps_its_order_on_its_connection(three: ottla.Cluster, topic: str) -> None:
    with three.faults.stall(probability=0.5, delay_max_ms=40) as fault:
        with producer(three, acks=0, enable_idempotence=False, **UNHURRIED) as sender:
            for number in range(50):
                sender.send(topic, str(number))
                sender.flush()
        assert fault.fired > 0
        assert leaders_end(three, topic) == 50
    assert come_to(three, topic, 50) == [str(number) for number in range(50)]


def test_a_fault_that_cannot_begin_uses_up_no_number(three: ottla.Cluster) -> None:
    with three.faults.lose_ack(nth=1) as before:
        with pytest.raises(UserMistake, match="for simulated clients"):
            three.faults.add(make_fault("drift_clock", client_id="a", drift_ppm=1))
        with three.faults.lose_ack(nth=1) as after:
            assert after.id == before.id + 1


@pytest.mark.parametrize("kind", ["kill", "pause"])
def test_a_broker_that_falls_after_its_fault_was_healed_is_back_at_once(
    three: ottla.Cluster, topic: str, kind: str
) -> None:
    """The answer that the fault waits for goes out when the followers have the record, which is after the healing."""
    leader = three.leader(topic, 0)
    three.await_isr(topic, 0)
    links = [three.faults.cut_link(leader, each, silently=True) for each in three.brokers() if each != leader]
    fault = three.faults.add(make_fault(kind, moment="ack", topic=topic, times=1))
    with producer(three, **UNHURRIED) as sender:
        delivery = sender.send(topic, "a")
        fault.await_fired()
        fault.heal()
        for link in links:
            link.heal()
        delivery.result(20)
    wait_until(lambda: three.brokers()[leader] == "running", f"broker {leader} stays {kind}d")
    assert come_to(three, topic, 1)[:1] == ["a"]


def test_a_clock_that_jumps_shows_in_the_times_of_records_and_is_set_right(three: ottla.Cluster) -> None:
    three.create_topic("dated", partitions=1, configs={"message.timestamp.type": "LogAppendTime"})
    leader = three.leader("dated", 0)
    with producer(three) as sender:
        sender.send("dated", "before", timestamp_ms=5).result(20)
        with three.faults.jump_clock(leader, jump_ms=3_600_000) as fault:
            sender.send("dated", "while").result(20)
            assert fault.fired == 1
        sender.send("dated", "after").result(20)
    table = ottla.read_table(three.bootstrap_servers, "dated")
    before, meanwhile, after = (each.timestamp() * 1000 for each in table.column("timestamp").to_pylist())
    assert before > 5
    assert meanwhile >= before + 3_600_000
    assert before <= after <= meanwhile - 3_000_000


def test_a_follower_behind_a_cut_link_falls_out_of_sync_and_comes_back() -> None:
    with ottla.Cluster(3, settings={"replica_lag_time_max_ms": 300}) as cluster:
        cluster.create_topic("flights")
        leader = cluster.leader("flights", 0)
        other = next(broker_id for broker_id in (1, 2, 3) if broker_id != leader)
        with cluster.faults.cut_link(leader, other) as fault:
            with producer(cluster) as sender:
                sender.send("flights", "a").result(20)
            assert other not in cluster.await_isr("flights", 0, 2)
            assert fault.fired >= 1
        assert len(cluster.await_isr("flights", 0, 3)) == 3


def test_an_isolated_leader_is_a_zombie_that_acknowledges_nothing_for_all(three: ottla.Cluster, topic: str) -> None:
    leader = three.leader(topic, 0)
    with producer(three) as sender:
        sender.send(topic, "a").result(20)
        with three.faults.isolate(leader) as fault:
            successor = three.await_leader(topic, 0, other_than=leader)
            sender.send(topic, "b").result(20)
            assert fault.fired >= 1
    three.await_isr(topic, 0, 3)
    assert three.leader(topic, 0) == successor
    assert values(three, topic) == ["a", "b"]


def test_an_unplugged_broker_goes_on_with_its_clients_when_healed(three: ottla.Cluster, topic: str) -> None:
    leader = three.leader(topic, 0)
    with producer(three, **UNHURRIED) as sender:
        sender.send(topic, "a").result(20)
        with three.faults.unplug(leader) as fault:
            late = sender.send(topic, "b")
            with pytest.raises(TimeoutError):
                late.result(0.3)
            assert fault.fired >= 1
        assert late.result(20).offset == 1
    assert values(three, topic) == ["a", "b"]


def test_a_half_open_connection_stays_silent_and_a_new_one_is_well(three: ottla.Cluster, topic: str) -> None:
    leader = three.leader(topic, 0)
    with producer(three) as sender:
        sender.send(topic, "a").result(20)
        fault = three.faults.half_open(leader)
        assert fault.fired >= 1
        assert sender.send(topic, "b").result(20).offset == 1
    assert values(three, topic) == ["a", "b"]


def test_a_flipped_byte_is_found_by_who_reads_it(three: ottla.Cluster, topic: str) -> None:
    with producer(three) as sender:
        for value in ("a", "b", "c"):
            sender.send(topic, value * 100).result(20)
    with three.faults.corrupt(topic, 0, 1, broker_id=three.leader(topic, 0)) as fault:
        with pytest.raises(OttlaError, match="CRC"):
            values(three, topic)
        assert fault.fired == 1


def test_a_whole_cluster_without_power_keeps_what_was_synced() -> None:
    settings = {"log_flush_interval_messages": 1, "broker_session_timeout_ms": 600, "broker_heartbeat_interval_ms": 100}
    with ottla.Cluster(3, settings=settings) as cluster:
        cluster.create_topic("flights")
        with producer(cluster) as sender:
            for number in range(10):
                sender.send("flights", str(number)).result(20)
        with cluster.faults.cut_power(topic="flights", nth=1, moment="append") as fault:
            sender = producer(cluster, **UNHURRIED)
            late = sender.send("flights", "late")
            wait_until(lambda: fault.fired == 1, "the power stays on")
            # TimeoutError where the thread is late, too.
            with pytest.raises((DeliveryError, TimeoutError)):
                sender.close(0)
            assert late.exception(20) is not None
            assert set(cluster.brokers().values()) == {"down"}
        cluster.await_isr("flights", 0, 3)
        assert values(cluster, "flights")[:10] == [str(number) for number in range(10)]


def test_faults_are_found_by_their_ids_and_healed_all_at_once(three: ottla.Cluster, topic: str) -> None:
    three.faults.heal()
    lost, down = three.faults.lose_ack(topic=topic, nth=1), three.faults.kill(moment="now", broker_id=2)
    assert three.faults.in_force() == [lost, down]
    assert three.faults.find(down.id) is down
    assert three.brokers()[2] == "down"
    with producer(three) as sender:
        sender.send(topic, "a").result(20)
    assert three.faults.heal() == [lost, down]
    assert three.faults.in_force() == []
    assert three.brokers()[2] == "running"
    assert three.faults.find(lost.id).is_over
    assert three.faults.find(lost.id).fired == 1
    assert three.faults.heal() == []
    with pytest.raises(UserMistake, match="there is no fault 999"):
        three.faults.find(999)


def test_why_a_block_was_left_is_told_even_where_its_fault_cannot_be_healed() -> None:
    with ottla.Cluster(1) as cluster:
        with pytest.raises(LookupError, match="of the user") as left, cluster.faults.lose_ack():
            _end_and_raise(cluster, LookupError("of the user"))
        assert left.value.__notes__ == [
            "the fault lose_ack() could not be healed: the brokers' process ended by itself (killed by signal 9)."
        ]
        with pytest.raises(ottla.OttlaError, match="ended by itself"), cluster.faults.in_force()[0]:
            pass


def _end_and_raise(cluster: ottla.Cluster, error: Exception) -> None:
    os.kill(cluster.pid, signal.SIGKILL)
    raise error


def test_a_fault_that_cannot_be_healed_does_not_keep_the_others() -> None:
    with ottla.Cluster(2) as cluster:
        kill, pause = cluster.faults.kill(moment="now", broker_id=1), cluster.faults.pause(moment="now", broker_id=2)
        port = int(cluster.bootstrap_servers.split(",")[0].rpartition(":")[2])
        with socket.create_server(("127.0.0.1", port)), pytest.raises(UserMistake, match="in use"):
            cluster.faults.heal()
        assert pause.is_over
        assert cluster.brokers()[2] == "running"
        assert not kill.is_over


@pytest.mark.parametrize(
    ("impose", "said"),
    [
        (lambda faults: faults.full_disk(9), "no broker 9"),
        (lambda faults: faults.cut_link(1, 7), "no broker 7"),
        (lambda faults: faults.hold(api="Prodcue"), "api='Prodcue' is no request .* did you mean 'Produce'"),
        (lambda faults: faults.kill(api="Fetsch"), "api='Fetsch' is no request .* did you mean 'Fetch'"),
        (lambda faults: faults.corrupt("nowhere", 0, 0, broker_id=1), "holds no log of nowhere-0"),
    ],
)
def test_a_fault_that_makes_no_sense_says_why(three: ottla.Cluster, impose: object, said: str) -> None:
    with pytest.raises(UserMistake, match=said):
        impose(three.faults)  # type: ignore[operator]


def test_a_silenced_connection_does_not_keep_the_brokers_busy(three: ottla.Cluster) -> None:
    """A socket nobody reads must not be reported as readable again and again."""
    host, port = three.bootstrap_servers.split(",")[0].split(":")
    with socket.create_connection((host, int(port))) as sock, three.faults.unplug(1):
        sock.sendall(b"\0")
        assert three.brokers()[1] == "running"
    assert three.brokers()[1] == "running"


def test_one_client_is_parted_from_a_broker_and_the_others_are_not(three: ottla.Cluster, topic: str) -> None:
    leader = three.leader(topic, 0)
    with (
        producer(three, client_id="parted", request_timeout_ms=20_000, enable_idempotence=False) as parted,
        producer(three, client_id="well") as well,
    ):
        for sender in (parted, well):
            sender.send(topic, "before").result(20)
        with three.faults.unplug(leader, client_id="parted") as fault:
            assert fault.fired >= 1
            held = parted.send(topic, "held")
            for number in range(5):
                well.send(topic, str(number)).result(20)
            # A connection that is made meanwhile says whose it is, and is not answered, either.
            fired, address = fault.fired, three.bootstrap_servers.split(",")[leader - 1]
            with ottla.Producer(address, client_id="parted", max_block_ms=300) as late:
                with pytest.raises(OttlaError, match="no Kafka broker could be reached"):
                    late.send(topic, "nobody knows where to")
                wait_until(lambda: fault.fired > fired, "nobody hears whose connection it is")
            assert not held.done()
        assert held.result(20).offset == 7
    assert values(three, topic) == ["before", "before", "0", "1", "2", "3", "4", "held"]


@pytest.mark.parametrize("healed", [False, True])
def test_a_replica_out_of_sync_is_elected_as_long_as_the_fault_is_in_force(
    three: ottla.Cluster, topic: str, healed: bool
) -> None:
    leader = three.leader(topic, 0)
    others = [broker_id for broker_id in (1, 2, 3) if broker_id != leader]
    with producer(three, acks=1, **UNHURRIED) as sender:
        sender.send(topic, "all have it").result(20)
        with three.faults.isolate(others[0]), three.faults.isolate(others[1]):
            wait_until(lambda: three.isr(topic, 0) == (leader,), "the followers stay in sync")
            sender.send(topic, "the leader alone has it").result(20)
            fault = three.faults.unclean_election(topic, 0)
            if healed:
                fault.heal()
            three.kill(leader)
    if healed:
        states = {"running", "down"}
        wait_until(lambda: three.leader(topic, 0) == -1 and set(three.brokers().values()) == states, "somebody leads")
    else:
        assert three.await_leader(topic, 0, other_than=leader) in others
    assert fault.fired == (0 if healed else 1)
    three.start(leader)
    three.await_isr(topic, 0, 3)
    fault.heal()
    assert values(three, topic) == ["all have it", *(["the leader alone has it"] if healed else [])]


def test_a_coordinator_is_moved_as_a_fault(three: ottla.Cluster, topic: str) -> None:
    with ottla.Producer(three.bootstrap_servers, transactional_id=f"id of {topic}") as sender:
        with sender.transaction():
            sender.send(topic, "before")
        before = three.coordinator(transactional_id=f"id of {topic}")
        with three.faults.move_coordinator(transactional_id=f"id of {topic}") as fault:
            assert fault.fired == 1
            assert three.coordinator(transactional_id=f"id of {topic}") != before
            with sender.transaction():
                sender.send(topic, "after")
    with three.faults.move_leader(topic, 0) as fault:
        assert fault.fired == 1
    with pytest.raises(UserMistake, match="there is no nowhere-0"):
        three.faults.move_leader("nowhere", 0)
    assert values(three, topic) == ["before", "after"]


def test_a_fault_that_is_over_is_not_entered_again(three: ottla.Cluster, topic: str) -> None:
    with three.faults.lose_ack(topic=topic, nth=1) as fault:
        pass
    again = r"the fault lose_ack\(.*\) is over: make a new one with faults\.lose_ack\(\.\.\.\)"
    with pytest.raises(UserMistake, match=again), fault:
        pass


def test_a_fault_has_one_block_at_a_time(three: ottla.Cluster, topic: str) -> None:
    with three.faults.hold(topic=topic) as fault:
        with pytest.raises(UserMistake, match=r"is in a `with` block already: make another with faults\.hold"), fault:
            pass
        assert not fault.is_over
    assert fault.is_over
