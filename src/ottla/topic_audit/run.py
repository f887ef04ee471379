"""`ottla audit`: what there is to judge, where it is judged, and what is shown of it.

    ledger -> topic looked at -> here or on Spark: read, audit -> topic still there -> verdict

A ledger that cannot be used is an error before anything is read of the topic.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.audit.findings import MISREAD
from ottla.audit.ledgers.counts import NOT_READ
from ottla.audit.ledgers.tables import TopicTraits
from ottla.audit.ledgers.verdict import judge
from ottla.audit.promises import PROMISES
from ottla.errors import OttlaError, UserMistake
from ottla.json_output import STDOUT, check_json_output, write_json
from ottla.ledger.files import count_rows, ledger_files
from ottla.ledger.schema import EXACTLY_ONCE, GUARANTEES
from ottla.screen import open_console, showing_steps
from ottla.topic_audit.outcome import AuditOutcome
from ottla.topic_audit.report import show_outcome
from ottla.topic_audit.topic import check_still_there, look_at_topic

if TYPE_CHECKING:
    from ottla.audit.ledgers.partition import Audit
    from ottla.screen import Steps
    from ottla.topic_audit.topic import TopicSeen

AUTO, PROCESS, SPARK = "auto", "process", "spark"
ENGINES = (AUTO, PROCESS, SPARK)
IN_PROCESS_MAX = 5_000_000
"""More records than these are audited on PySpark, unless `--engine` says otherwise."""


@dataclass(slots=True, frozen=True)
class AuditOptions:
    """What `ottla audit` was given. `settings`: of a consumer, as keywords."""

    ledger: str
    topic: str
    bootstrap_servers: str
    claims: str | None = None
    engine: str = AUTO
    master: str | None = None
    is_transactional: bool = False
    json_file: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)


def run_audit(options: AuditOptions) -> int:
    """Do it, show it, and return the exit status: 0 as claimed, 1 broken, 2 where nothing is proved.

    UserMistake where something given cannot be used.
    """
    _check(options)
    console = open_console()
    console.quiet = options.json_file == STDOUT
    with showing_steps(console) as steps:
        outcome = _audit(options, steps)
    show_outcome(console, outcome)
    if options.json_file is not None:
        write_json(options.json_file, json.dumps(outcome.to_dict(), indent=1) + "\n", what="the outcome")
    return outcome.exit_status


def _check(options: AuditOptions) -> None:
    if options.claims not in (None, *GUARANTEES):
        raise UserMistake(f"--claims {options.claims} is no guarantee: give one of {', '.join(GUARANTEES)}")
    if options.engine not in ENGINES:
        raise UserMistake(f"--engine {options.engine} is none of {', '.join(ENGINES)}")
    if options.master is not None:
        if options.engine == PROCESS:
            raise UserMistake("--master is about Spark, and --engine process goes without it: give one of them")
        from ottla.spark.session import local_cores

        local_cores(options.master)
    check_json_output(options.json_file, what="the outcome")


def _audit(options: AuditOptions, steps: Steps) -> AuditOutcome:
    files = _files(options.ledger)
    settings = dict(options.settings)
    if options.is_transactional:
        settings["isolation_level"] = "read_committed"
    rows = 0 if files is None else count_rows(files)
    with steps.step("look at the topic"):
        seen = look_at_topic(options.bootstrap_servers, options.topic, settings)
    on_spark = _goes_to_spark(options, files, max(rows, seen.offsets))
    try:
        if on_spark:
            audit, claims, seconds = _on_spark(options, files, seen, settings, steps)
        else:
            assert files is not None
            audit, claims, seconds = _here(options, files, seen, settings, steps)
    except UserMistake:
        raise
    except OttlaError:
        # A reader whose topic was deleted raises another error.
        check_still_there(options.bootstrap_servers, seen, settings)
        raise
    check_still_there(options.bootstrap_servers, seen, settings)
    verdict = judge(claims, audit, shows=())
    return AuditOutcome(
        options.topic, verdict, "on PySpark" if on_spark else "here", seconds, _notes(options, audit, seen)
    )


def _files(ledger: str) -> tuple[Path, ...] | None:
    """The ledger's files; None where it is at an address (`s3a://...`) that only Spark can read."""
    return None if "://" in ledger else ledger_files(Path(ledger))


def _goes_to_spark(options: AuditOptions, files: tuple[Path, ...] | None, records: int) -> bool:
    if options.engine == PROCESS:
        if files is None:
            raise UserMistake(f"--ledger {options.ledger} is read by Spark: leave --engine process away")
        return False
    if options.engine == AUTO and options.master is None and files is not None and records <= IN_PROCESS_MAX:
        return False
    from ottla.spark.java import check_bash, find_java
    from ottla.spark.session import is_submitted

    try:
        import pyspark  # noqa: F401

        if not is_submitted():
            check_bash()
            find_java()
    except (ImportError, UserMistake) as error:
        why = error if isinstance(error, UserMistake) else "it is not installed: pip install 'ottla[run]'"
        if options.engine == AUTO and files is not None and options.master is None:
            raise UserMistake(
                f"{records:,} records are audited on PySpark, and {why}. With --engine process they are audited here, "
                f"which takes about {records * 200 // 1_000_000:,} MB of memory."
            ) from None
        raise UserMistake(f"PySpark cannot be used: {why}") from None
    return True


def _traits(options: AuditOptions, seen: TopicSeen, claims: str) -> TopicTraits:
    return TopicTraits(options.is_transactional, seen.is_compacted, PROMISES[claims].is_answered)


def _claims(options: AuditOptions, told: tuple[str, ...]) -> str:
    """What is claimed: as given, else as the ledger says, else what a producer claims by its defaults."""
    if options.claims is not None:
        return options.claims
    if len(told) > 1:
        raise UserMistake(f"The ledger's column guarantee says {told[0]} and {told[-1]}: give one of them as --claims.")
    for claim in told:
        if claim not in GUARANTEES:
            raise UserMistake(
                f"The ledger's column guarantee says {claim!r}, and has to say one of {', '.join(GUARANTEES)}: correct "
                "it, or give --claims."
            )
        return claim
    return EXACTLY_ONCE


def _here(
    options: AuditOptions, files: tuple[Path, ...], seen: TopicSeen, settings: dict[str, Any], steps: Steps
) -> tuple[Audit, str, float]:
    from ottla.ledger.files import check_partitions
    from ottla.topic_audit.local import audit_here, read_ledger_rows

    began = time.monotonic()
    rows = read_ledger_rows(files, options.topic, steps)
    claims = _claims(options, rows.guarantees)
    check_partitions(rows, options.topic, len(seen.bounds))
    audit = audit_here(rows, options.bootstrap_servers, seen, _traits(options, seen, claims), settings, steps)
    return audit, claims, time.monotonic() - began


def _on_spark(
    options: AuditOptions, files: tuple[Path, ...] | None, seen: TopicSeen, settings: dict[str, Any], steps: Steps
) -> tuple[Audit, str, float]:
    from ottla.spark.loading import SparkLoading
    from ottla.spark.progress import watching
    from ottla.topic_audit.spark import (
        audit_on_spark,
        check_ledger,
        check_places,
        ledger_at,
        ledger_frame,
        told_in_a_sentence,
    )

    with ExitStack() as stack:
        loading = stack.enter_context(SparkLoading("ottla audit", options.master))
        stack.enter_context(told_in_a_sentence())
        with steps.step("start Spark"):
            spark = loading.session()
        began = time.monotonic()
        with steps.step("PySpark looks the ledger over", unit="tasks") as step, watching(spark, step):
            if files is None:
                rows = ledger_at(spark, options.ledger, options.topic)
            else:
                rows = ledger_frame(spark, tuple(path.resolve() for path in files), options.topic)
            told = check_ledger(rows, options.topic, len(seen.bounds))
            claims = _claims(options, told.claims)
            if told.misplaced:
                check_places(rows, options.topic, len(seen.bounds))
        traits = _traits(options, seen, claims)
        audit = audit_on_spark(spark, rows, options.bootstrap_servers, seen, traits, settings, steps)
        return audit, claims, time.monotonic() - began


def _notes(options: AuditOptions, audit: Audit, seen: TopicSeen) -> tuple[str, ...]:
    notes = []
    skipped = dict(audit.finding(MISREAD).tallies).get(NOT_READ)
    if skipped and not options.is_transactional:
        notes.append(
            "Offsets that were not read may be markers of transactions: if transactions are written to the topic, "
            "give --transactional."
        )
    if any(begin for begin, _ in seen.bounds.values()):
        notes.append(
            "The beginning of the log is gone (retention, or deleted records): nothing is known of what was there."
        )
    return tuple(notes)
