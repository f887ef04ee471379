"""The main job: an input goes three times through a cluster with faults, and Spark compares what is stored with it.

    file -> records -> producer (three guarantees, the same faults) -> three brokers -> Spark: answers, audit -> verdict
                                               exactly-once topic -> Spark, killed once -> result: audit -> verdict
                                    all four topics: looks, reads, logs of all replicas -> properties -> verdict

The order is chosen for the user who watches: errors of the input come first, the way of one record follows within two
seconds, Spark loads in a thread of its own while the producer works, and the report comes last. A run either ends with
its report or leaves nothing behind: folders it made are removed, the JSON file is written at the very end.

On a Kafka of the user's the same happens through a proxy, which can do all that is done here (`kafka.py`); what cannot
be seen there is not judged.

Invariant: all counts are read from the topics; what was planned (how often a fault should fire) is never reported.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.audit.promises import PROMISES
from ottla.errors import OttlaError, UserMistake
from ottla.inputs.source import Source, describe, first_rows, open_source
from ottla.inputs.table import read_source
from ottla.json_output import STDOUT, check_json_output
from ottla.ledger.schema import AT_LEAST_ONCE, EXACTLY_ONCE
from ottla.patience import comes_within
from ottla.printable import printable
from ottla.screen import Steps, open_console, showing_steps
from ottla.showcase.folders import RunFolders, make_folders, temporary_folder
from ottla.showcase.lanes import show_lanes
from ottla.showcase.outcome import KILL_DRIVER, LOSE_ACK, LOSE_REQUEST, RunOutcome, Streamed
from ottla.whole_file import check_path, write_whole

if TYPE_CHECKING:
    from ottla.audit.ledgers.verdict import Verdict
    from ottla.evidence.witness import TopicWitness
    from ottla.faults.verbs import FaultInForce
    from ottla.foreign.kafka import ForeignKafka
    from ottla.showcase.kafka import RunKafka
    from ottla.showcase.registry import RunRegistry
    from ottla.showcase.streamed import StreamingDriver
    from ottla.showcase.workload import Records

LOSE_ACK_EVERY = 10
LOSE_REQUEST_EVERY = 25
BROKERS = 3
_RECORD_AHEAD = 3
_RECORD_BYTES_MAX = 65_536
_DRAIN_S = 30.0
_CHECK_EVERY_S = 2.0


@dataclass(slots=True, frozen=True)
class RunOptions:
    """What `ottla run` was given; None for an option that was not given.

    `kafka_options`: the words of the command line that name a Kafka of the user's. `schema`: the format of values, None
    for JSON; `registry` the address of a schema registry of the user's.
    """

    input_file: str | None = None
    key: str | None = None
    data_dir: Path | None = None
    json_file: str | Path | None = None
    report_file: Path | None = None
    port: int = 0
    master: str | None = None
    kafka_options: tuple[str, ...] = ()
    schema: str | None = None
    registry: str | None = None


def run_showcase(options: RunOptions, foreign: ForeignKafka | None = None) -> int:
    """Do everything, show everything, and return the exit status: 0 as promised, 1 not so, or void.

    `foreign`: where the topics are made, instead of an embedded cluster.

    Raises UserMistake, before anything is left behind, where something given cannot be used.
    """
    began = time.monotonic()
    _check_installed()
    check_json_output(options.json_file, what="the figures")
    if options.report_file is not None:
        check_path(options.report_file, what="the report", option="--report")
    from ottla.spark.session import local_cores

    is_elsewhere = local_cores(options.master) is None and options.master is not None
    if options.schema is not None and options.registry is None and is_elsewhere:
        raise UserMistake(
            f"the registry of --schema {options.schema} is on this machine alone, and Spark's workers at "
            f"{options.master} may be on others: give a registry that they reach with --registry"
        )
    source = open_source(options.input_file, options.key)
    from ottla.spark.java import check_bash, find_java

    find_java()
    check_bash()
    from ottla.showcase.next_commands import KafkaGiven, next_commands

    console = open_console()
    console.quiet = options.json_file == STDOUT
    with ExitStack() as stack:
        folders = stack.enter_context(make_folders(options.data_dir, has_brokers=foreign is None))
        folders.check_writable(_RECORD_BYTES_MAX)
        kafka = _kafka(options, folders, foreign, stack)
        registry = None
        if options.registry is not None:
            # If it does not answer, the user learns that at once.
            registry = _registry(options, kafka, foreign, stack)
        about, lines = _one_record(kafka, source)
        # If it is interrupted, the record's way cleans up while there is still a cluster.
        with closing(lines):
            show_lanes(console, about, lines)
        with showing_steps(console) as steps:
            if options.schema is not None and registry is None:
                with steps.step("start a schema registry"):
                    registry = _registry(options, kafka, foreign, stack)
            outcome = _find_out(kafka, source, folders, steps, options.master, registry)
        outcome.seconds = time.monotonic() - began
        outcome.kept_in = folders.kept_in
        given = None
        if foreign is not None:
            kept = kafka.name(f"{source.name}-{AT_LEAST_ONCE}") if foreign.keeps_topics else None
            given = KafkaGiven(options.kafka_options, kept)
        folders.keep()
        again = _words(options)
    from ottla.showcase.report import show_report, write_figures

    show_report(console, outcome, next_commands(source, folders, given, again))
    if options.json_file is not None:
        write_figures(options.json_file, outcome)
    if options.report_file is not None:
        from ottla.showcase.report_page import as_report

        write_whole(options.report_file, as_report(outcome), what="the report", option="--report")
        console.print(f"The report is {options.report_file}.", soft_wrap=True, highlight=False)
    return outcome.exit_status


def _check_installed() -> None:
    """UserMistake now for a library that is missing and would be loaded only later."""
    missing = [name for name in ("pyarrow", "pyspark", "pandas") if importlib.util.find_spec(name) is None]
    if missing:
        raise UserMistake(f"ottla run needs {', '.join(missing)}, not installed here: pip install 'ottla[run]'")


def _kafka(options: RunOptions, folders: RunFolders, foreign: ForeignKafka | None, stack: ExitStack) -> RunKafka:
    from ottla.showcase.kafka import EmbeddedKafka, ProxiedKafka

    if foreign is not None:
        return ProxiedKafka(foreign, stack)
    from ottla.cluster.cluster import Cluster

    return EmbeddedKafka(stack.enter_context(Cluster(BROKERS, data_dir=folders.brokers, port=options.port)))


def _registry(options: RunOptions, kafka: RunKafka, foreign: ForeignKafka | None, stack: ExitStack) -> RunRegistry:
    from ottla.showcase.registry import RunRegistry

    keeps = foreign.keeps_topics if foreign is not None else options.data_dir is not None
    return RunRegistry(options.registry, kafka, stack, keeps=keeps, say=_say)


def _say(words: str) -> None:
    sys.stderr.write(f"ottla: {printable(words)}\n")


def _words(options: RunOptions) -> tuple[str, ...]:
    """The words of another command line for values of the same format."""
    if options.schema is None:
        return ()
    return ("--schema", options.schema, *(("--registry", options.registry) if options.registry else ()))


def _one_record(kafka: RunKafka, source: Source) -> tuple[str, Generator[tuple[str, str, str], None, None]]:
    import json

    from ottla.showcase.one_record import follow_record

    rows = first_rows(source, _RECORD_AHEAD + 1)
    if not rows:
        raise UserMistake(f"{source.path} has columns but not a single row: there is nothing to send")
    records = []
    for row in rows:
        key = row.get(source.key)
        records.append((None if key is None else str(key).encode(), json.dumps(row, default=str).encode()))
    return describe(source, rows[-1]), follow_record(kafka, records[:-1], records[-1])


def _find_out(
    kafka: RunKafka,
    source: Source,
    folders: RunFolders,
    steps: Steps,
    master: str | None,
    registry: RunRegistry | None = None,
) -> RunOutcome:
    with steps.step(f"read {source.shown}"):
        table = read_source(source)
        from ottla.showcase.question import question_for
        from ottla.showcase.workload import make_records

        values: Any = None
        if registry is not None:
            from ottla.showcase.avro import AvroValues

            values = AvroValues(source, table, registry)
        records = make_records(source, table, values)
        question = question_for(source, table)
    if not kafka.where:
        folders.check_room(records)
    from ottla.spark.loading import SparkLoading, java_settings

    topics = {guarantee: kafka.name(f"{source.name}-{guarantee}") for guarantee in PROMISES}
    with SparkLoading("ottla run", master, java_settings(records.count)) as loading:
        witnesses, fired = _produce(kafka, records, topics, folders, steps)
        with steps.step("start Spark"):
            spark = loading.session()
        from ottla.showcase.question import ask_topics
        from ottla.showcase.streamed import StreamingDriver
        from ottla.spark.progress import watching

        with temporary_folder() as folder, StreamingDriver(folder, records.count) as driver:
            about = "PySpark answers the question from each topic"
            with steps.step(about, unit="tasks") as step, watching(spark, step):
                answers = ask_topics(spark, kafka.read_from, topics, question, records.values, **kafka.spark_options)
            about = "PySpark audits each topic against the ledger"
            with steps.step(about, unit="tasks") as step, watching(spark, step):
                verdicts, offsets = _judge(spark, kafka, topics, folders, master)
            streamed, streaming = _stream(driver, spark, kafka, source, topics[EXACTLY_ONCE], records, folders, steps)
        schemas = None
        if registry is not None:
            from ottla.showcase.versions import read_versions

            about = "PySpark reads both versions of the schema as the newest one"
            with steps.step(about, unit="tasks") as step, watching(spark, step):
                schemas = read_versions(spark, kafka, topics, kafka.name(f"{source.name}-streamed"), values)
    from ottla.evidence.witness import looked_at
    from ottla.showcase.properties import judge_run, note_controls

    with steps.step("judge the properties"):
        for witness in witnesses.values():
            witness.take_stock()
        note_controls(witnesses[EXACTLY_ONCE], verdicts)
        everyone = (*witnesses.values(), streaming)
        properties = judge_run(everyone, (*verdicts, streamed.verdict))
    return RunOutcome(
        shown=source.shown,
        records=records.count,
        question=question.words,
        verdicts=verdicts,
        answers=answers,
        fired=fired,
        offsets=offsets,
        streamed=streamed,
        examples=_examples(source, table, verdicts),
        properties=properties,
        looked_at=f"{looked_at(everyone)}; besides, Spark's audit of all records",
        kafka=kafka.where,
        schemas=schemas,
    )


def _produce(
    kafka: RunKafka, records: Records, topics: dict[str, str], folders: RunFolders, steps: Steps
) -> tuple[dict[str, TopicWitness], dict[str, dict[str, int]]]:
    """Send everything under each guarantee; returns the witnesses, and how often each kind of fault fired."""
    from ottla.evidence.sent import note_sent
    from ottla.evidence.times import BatchTimes
    from ottla.showcase.properties import witness_of
    from ottla.showcase.workload import send_records

    witnesses: dict[str, TopicWitness] = {}
    fired: dict[str, dict[str, int]] = {}
    for guarantee, promise in PROMISES.items():
        topic = topics[guarantee]
        kafka.create_topic(topic, records.partitions)
        faults = _put_in_force(kafka, topic, records.partitions)
        witness = witnesses[guarantee] = witness_of(kafka, topic, records.partitions, promise)
        times = BatchTimes(witness.clock)
        with steps.step(f"send {guarantee}", records.count) as step:
            ledger = folders.ledger(guarantee)
            servers, run_id, check = kafka.bootstrap_servers, folders.run_id, folders.check_writable
            who, advance = kafka.client_settings, _looking(witness, step.advance)
            requests = send_records(
                servers, topic, promise, records, ledger, run_id, advance, check, times, settings=who
            )
            _wait_until_handled(topic, faults, requests, check)
        counts = fired[guarantee] = {kind: sum(fault.fired for fault in of_kind) for kind, of_kind in faults.items()}
        for of_kind in faults.values():
            for fault in of_kind:
                fault.heal()
        witness.settle()
        witness.choose_part()
        witness.read_part("after sending")
        note_sent(witness, ledger, records.made, times)
        witness.note_faults(counts)
    return witnesses, fired


def _looking(witness: TopicWitness, advance: Callable[[int], None]) -> Callable[[int], None]:
    """`advance`, with a look at the brokers each time."""

    def look_too(count: int) -> None:
        advance(count)
        witness.look()

    return look_too


def _put_in_force(kafka: RunKafka, topic: str, partitions: int) -> dict[str, list[FaultInForce]]:
    """The same faults for every guarantee, counted per partition: each partition's requests come in a fixed order."""
    each = range(partitions)
    return {
        LOSE_ACK: [kafka.faults.lose_ack(topic=topic, partition=n, every=LOSE_ACK_EVERY) for n in each],
        LOSE_REQUEST: [kafka.faults.lose_request(topic=topic, partition=n, every=LOSE_REQUEST_EVERY) for n in each],
    }


def _wait_until_handled(
    topic: str, faults: dict[str, list[FaultInForce]], requests: int, check: Callable[[], None]
) -> None:
    """Return once the brokers have seen every Produce request that was sent.

    A producer that asks for no answers (acks=0) is done when its last byte is in a socket's buffer; a topic read at
    that moment would lack what is still on its way. Each fault has counted the requests of its partition.
    """
    seen, check_at = 0, time.monotonic() + _CHECK_EVERY_S

    def are_handled() -> bool:
        nonlocal seen, check_at
        seen = sum(fault.matched for fault in faults[LOSE_REQUEST])
        if seen < requests and time.monotonic() > check_at:
            check()
            check_at += _CHECK_EVERY_S
        return seen >= requests

    if not comes_within(_DRAIN_S, are_handled):
        raise OttlaError(f"the brokers saw {seen:,} of {requests:,} requests to {topic} within {_DRAIN_S:.0f} s")


def _judge(
    spark: Any, kafka: RunKafka, topics: dict[str, str], folders: RunFolders, master: str | None
) -> tuple[tuple[Verdict, ...], dict[str, int]]:
    """Each guarantee's verdict, and how many offsets each topic spans, as the brokers say."""
    from ottla.audit.ledgers.spark import audit_topics
    from ottla.audit.ledgers.verdict import judge
    from ottla.topic_audit.stored import stored_frame
    from ottla.topic_audit.topic import bounds_of

    bounds = bounds_of(kafka.read_from, topics.values(), kafka.reader_settings)
    stored = stored_frame(spark, kafka.read_from, bounds, kafka.reader_settings)
    ledger = _ledger(spark, kafka, topics, folders, master)
    audits = audit_topics(ledger, stored, bounds)
    verdicts = tuple(judge(guarantee, audits[topic]) for guarantee, topic in topics.items())
    spans = {
        guarantee: sum(end - begin for begin, end in bounds[topic].values()) for guarantee, topic in topics.items()
    }
    return verdicts, spans


def _ledger(spark: Any, kafka: RunKafka, topics: dict[str, str], folders: RunFolders, master: str | None) -> Any:
    """The ledgers as a DataFrame; from here where Spark's workers may be on machines without this one's folders."""
    from ottla.spark.session import local_cores

    if kafka.where and master is not None and local_cores(master) is None:
        import pyarrow as pa

        from ottla.ledger.reader import read_ledger

        return spark.createDataFrame(pa.concat_tables([read_ledger(folders.ledger(each)) for each in topics]))
    # To Spark a path is a pattern: of a folder called "kept [1]" it would say that it does not exist.
    return spark.read.parquet(re.sub(r"([\\{}\[\]*?])", r"\\\1", str(folders.ledgers)))


def _stream(
    driver: StreamingDriver,
    spark: Any,
    kafka: RunKafka,
    source: Source,
    topic: str,
    records: Records,
    folders: RunFolders,
    steps: Steps,
) -> tuple[Streamed, TopicWitness]:
    """The exactly-once topic, copied by a Spark driver that is killed once; the judged result, and its witness."""
    from ottla.showcase.properties import note_streamed, streaming_witness
    from ottla.showcase.streamed import judge_result, stream_and_kill
    from ottla.spark.progress import watching

    result = kafka.name(f"{source.name}-streamed")
    witness = streaming_witness(kafka, result, records.partitions)
    commit_asked_us = 0

    def look_while_dead() -> None:
        # The first driver was killed before it asked for a commit; the second one begins after this.
        nonlocal commit_asked_us
        witness.choose_part()
        witness.read_part("while the driver is dead")
        commit_asked_us = witness.clock.now_us

    with steps.step("PySpark streams exactly-once on, its driver killed once"):
        count, partitions = records.count, records.partitions
        result_as = records.values.result(result)
        killed = stream_and_kill(driver, spark, kafka, topic, result, count, partitions, result_as, look_while_dead)
    with steps.step("PySpark audits what was streamed", unit="tasks") as step, watching(spark, step):
        streamed = Streamed(judge_result(spark, kafka, topic, result, result_as), killed)
    witness.choose_part()
    witness.take_stock()
    note_streamed(witness, commit_asked_us, topic, folders.ledger(EXACTLY_ONCE), records, result_as)
    witness.note_faults({KILL_DRIVER: killed})
    return streamed, witness


def _examples(source: Source, table: Any, verdicts: tuple[Verdict, ...]) -> dict[int, str]:
    """In words, the records that the evidence is about."""
    numbers = {anomaly.sequence for verdict in verdicts for anomaly in verdict.evidence if anomaly.sequence >= 0}
    return {
        number: describe(source, table.slice(number, 1).to_pylist()[0])
        for number in sorted(numbers)
        if number < table.num_rows
    }
