"""`ottla sink`: shows what exactly-once sinks wrote, and ends the transactions that a dead driver left open."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.command_config import CommandConfig, client_arguments
from ottla.cli.narrow_help import Command, Group
from ottla.cli.options import DEFAULT_BOOTSTRAP, BootstrapServers, Json
from ottla.cli.output import counted, new_table, tell
from ottla.errors import OttlaError, ProducerFenced, UserMistake
from ottla.nearest import nearest_name
from ottla.printable import printable

if TYPE_CHECKING:
    from ottla.sink.batch import Entry, Span
    from ottla.sink.decision import Decision
    from ottla.sink.receipt import Written
    from ottla.sink.recovery import SinkState
    from ottla.sink.settings import SinkSettings

_PATIENCE_MS = 10_000
# Of the driver's own transaction, in which this command writes at most one record.
_TIMEOUT_MS = 60_000
_LOST = "lost by timeout"
# For settings that are used to read about all sinks.
_ANY = "-"

SinkId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The sink's name, as ottla sink list shows it: the option sink.id; without it the write.id, or the "
        "location of the checkpoint.",
    ),
]
ControlTopic = Annotated[
    str, typer.Option("--control-topic", help="The topic in which the sink stores its decisions.", metavar="TOPIC")
]

sink = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Show what an exactly-once sink wrote, and commit or abort the transactions that a dead driver left open.\n\n"
    "For example:\n\n"
    "    ottla sink list -b localhost:9092\n\n"
    "    ottla sink show orders -b localhost:9092\n\n"
    "Exit status: 0 when the command has done its work, 1 when recover finds that rows of the last batch are lost or "
    "cannot end its transactions, 2 when the sink is not known, or brokers cannot be reached or refuse a request.",
)


@sink.command("list", cls=Command)
def list_sinks(
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    control_topic: ControlTopic = "__ottla_sink",
    as_json: Json = False,
) -> None:
    """List the sinks in one control topic, each with its last decided batch; the newest comes first.

    A query without sink.id has the location of its checkpoint as its name. A sink that has not decided a batch yet is
    not in the list.
    """
    settings = _settings(_ANY, bootstrap_servers, command_config, control_topic)
    known = _known(settings)
    found = sorted(known or [], key=lambda decision: -decision.decided_ms)
    if as_json:
        sinks = [{"sink": each.sink_id, **_batch_as_json(each), "state": _state(each)} for each in found]
        typer.echo(json.dumps({"sinks": sinks}))
    elif found:
        table = new_table("sink", "last batch", "decided", "rows", "state", right=("rows",))
        for each in found:
            rows = f"{each.totals.rows:,}"
            table.add_row(each.sink_id, _number(each), _time(each.decided_ms), rows, _state(each))
        tell(table)
    elif known is None:
        tell(
            f"there is no topic {control_topic!r} at {settings.bootstrap_servers}: no sink has written there. If the "
            "queries have another control topic, give --control-topic"
        )
    else:
        tell(f"topic {control_topic!r} at {settings.bootstrap_servers} has no decision of a sink")


def _known(settings: SinkSettings) -> list[Decision] | None:
    """The last decision of each sink; None if the control topic does not exist."""
    from ottla.sink.session import session_of

    session = session_of(settings)
    return session.last_decisions() if session.has_decisions() else None


@sink.command(cls=Command)
def show(
    sink_id: SinkId,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    control_topic: ControlTopic = "__ottla_sink",
    history: Annotated[
        bool, typer.Option("--history", help="Also show earlier batches that the topic still has.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the last decided batch: its tasks, whether their transactions are committed, and the offsets they wrote.

    This changes nothing. The query may be running.
    """
    from ottla.sink.recovery import describe
    from ottla.sink.session import session_of

    settings = _settings(sink_id, bootstrap_servers, command_config, control_topic)
    state = describe(session_of(settings), history)
    if not state.is_known:
        raise _unknown(settings)
    if as_json:
        typer.echo(json.dumps(_as_json(state, history)))
    else:
        _show(state, history, settings)


@sink.command(cls=Command)
def recover(
    sink_id: SinkId,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    control_topic: ControlTopic = "__ottla_sink",
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="Let the last batch count as done without the rows whose transactions timed out, and without rows of "
            "which it is unknown whether they were committed. The query will not write them any more.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Commit the open transactions of the last decided batch, and abort all other open transactions of the sink.

    Needed if the query will not be started again; otherwise its next start does the same, without --accept-loss.
    Give --accept-loss only if an error tells you to, and start the query again afterwards. A query that is writing a
    batch meanwhile is fenced, and fails.

    Exit status: 0 when it is done, 1 when rows of the last batch are lost or its transactions cannot be ended, 2 when
    the sink is not known, or brokers cannot be reached or refuse a request.
    """
    from ottla.sink import recovery
    from ottla.sink.refusals import or_accept
    from ottla.sink.session import session_of

    settings = _settings(sink_id, bootstrap_servers, command_config, control_topic)
    session = session_of(settings)
    if not recovery.describe(session).is_known:
        raise _unknown(settings)
    try:
        done = recovery.recover(session, accept_loss)
    except ProducerFenced:
        raise OttlaError(
            f"a query, a write or another ottla sink recover has begun to end the transactions of sink {sink_id!r} "
            "meanwhile; ottla sink show tells what is left"
        ) from None
    if as_json:
        written = session.written(done.committed)
        told = {
            "sink": sink_id,
            "batch": None if done.decision is None else _batch_as_json(done.decision),
            "committed": [_entry_as_json(entry, written.get(entry.receipt_offset)) for entry in done.committed],
            "aborted": [list(identity) for identity in done.aborted],
            "lost": [_entry_as_json(entry, None) for entry in done.lost],
        }
        typer.echo(json.dumps(told))
    else:
        decided = (
            "nothing was decided"
            if done.decision is None
            else f"the last decision is {printable(str(done.decision.batch))}"
        )
        tell(f"sink {sink_id}: {decided}")
        tell(f"{counted(len(done.committed), 'transaction')} committed, {len(done.aborted)} aborted")
    decision = done.decision
    if decision is None or not done.lost:
        return
    lost = counted(sum(entry.totals.rows for entry in done.lost), "row")
    if decision.loss_accepted:
        if not as_json:
            tell(f"{decision.batch} counts as done; {lost} of {decision.totals.rows:,} are lost, or may be")
        return
    kept = [entry for entry in decision.entries if not entry.lost]
    again = "Start the query again from its checkpoint, or run the write again with its write.id: it writes"
    raise OttlaError(
        f"{lost} of {decision.batch} are lost, because the transactions of {_tasks(done.lost)} timed out "
        "(transaction.timeout.ms); "
        + (
            f"the rows of {_tasks(kept)} are there. {again} the lost rows again{or_accept(settings)}"
            if kept
            else f"no row of the batch is there. {again} all of them"
        )
    )


def _tasks(entries: Iterable[Entry]) -> str:
    numbers = [str(entry.partition_id) for entry in entries]
    return f"task{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def _unknown(settings: SinkSettings) -> UserMistake:
    near = nearest_name(settings.sink_id, [each.sink_id for each in _known(settings) or ()])
    advice = f"did you mean {near!r}?" if near else "check its name; ottla sink list shows the sinks there."
    return UserMistake(
        f"no sink {settings.sink_id!r} is known at {settings.bootstrap_servers}, topic {settings.control_topic!r}: "
        f"{advice} If the query has another control topic, give --control-topic. A sink is known once it has decided a "
        "batch, or while a batch is open"
    )


def _settings(sink_id: str, bootstrap_servers: str, command_config: Path | None, control_topic: str) -> SinkSettings:
    from ottla.reader.settings import ReaderSettings
    from ottla.sink.settings import SinkSettings

    addresses, settings = client_arguments(
        command_config, ReaderSettings, bootstrap_servers, DEFAULT_BOOTSTRAP, default_api_timeout_ms=_PATIENCE_MS
    )
    return SinkSettings(sink_id, addresses, settings, control_topic=control_topic, transaction_timeout_ms=_TIMEOUT_MS)


# ---- as JSON -----------------------------------------------------------------------------------------------------


def _as_json(state: SinkState, history: bool) -> dict[str, Any]:
    last = state.decisions[-1] if state.decisions else None
    told: dict[str, Any] = {
        "sink": state.sink_id,
        "batch": None if last is None else _batch_as_json(last),
        "tasks": [] if last is None else [_task_as_json(state, last, entry) for entry in last.entries],
        "open": [list(identity) for identity in state.open],
        "deciding": state.deciding,
    }
    if history:
        told["history"] = [
            {**_batch_as_json(each), "tasks": [_task_as_json(state, each, entry) for entry in each.entries]}
            for each in state.decisions
        ]
    return told


def _batch_as_json(decision: Decision) -> dict[str, Any]:
    return {
        "query": decision.batch.query_id,
        "batch": decision.batch.batch_id,
        "rows": decision.totals.rows,
        "tasks": decision.tasks,
        "decided": _time(decision.decided_ms),
        "run_again_with_other_rows": decision.differed,
        "loss_accepted": decision.loss_accepted,
    }


def _state(decision: Decision) -> str:
    """Whether all that is decided is committed, as the decision itself notes it."""
    if decision.unsettled:
        return "to be committed"
    if not decision.lost:
        return "committed"
    gone = counted(sum(entry.totals.rows for entry in decision.lost), "row")
    return f"{gone} given up" if decision.loss_accepted else f"{gone} lost"


def _task_as_json(state: SinkState, decision: Decision, entry: Entry) -> dict[str, Any]:
    return {**_entry_as_json(entry, _written(state, decision, entry)), "state": _fate(state, decision, entry)}


def _entry_as_json(entry: Entry, written: Written | None) -> dict[str, Any]:
    return {
        "task": entry.partition_id,
        "transactional_id": entry.identity.transactional_id,
        "producer_id": entry.identity.producer_id,
        "producer_epoch": entry.identity.producer_epoch,
        "rows": entry.totals.rows,
        "offsets": None if written is None else [span._asdict() for span in written.spans],
        "partitions_left_out": None if written is None else written.left_out,
    }


# ---- for people ---------------------------------------------------------------------------------------------------


def _show(state: SinkState, history: bool, settings: SinkSettings) -> None:
    from ottla.sink.commands import recover_command

    if state.decisions:
        last = state.decisions[-1]
        tell(
            f"sink {state.sink_id}: {printable(str(last.batch))}, {counted(last.totals.rows, 'row')} of "
            f"{counted(last.tasks, 'task')}, "
            f"decided {_time(last.decided_ms)}"
        )
        table = new_table("task", "state", "rows", "topic", "offsets", right=("rows", "offsets"))
        for entry in last.entries:
            fate = _fate(state, last, entry)
            places = [("", "")] if fate == _LOST else _places([_written(state, last, entry)])
            for number, place in enumerate(places):
                first = (f"{entry.partition_id}", fate, f"{entry.totals.rows:,}")
                table.add_row(*(first if not number else ("", "", "")), *place)
        if last.entries:
            tell(table)
        if last.differed:
            times = "once" if last.differed == 1 else f"{last.differed} times"
            tell(f"run again {times} with other rows, which were not written")
        if last.loss_accepted:
            tell("counts as done without the rows that are lost or unknown (--accept-loss)")
    else:
        tell(f"sink {state.sink_id}: nothing is decided yet")
    if history and len(state.decisions) > 1:
        tell("earlier batches that are still known:")
        table = new_table("batch", "decided", "rows", "topic", "offsets", right=("rows", "offsets"))
        for decision in reversed(state.decisions[:-1]):
            there = [entry for entry in decision.entries if not entry.lost]
            rows = f"{decision.totals.rows:,}"
            if len(there) < len(decision.entries):
                rows = f"{sum(entry.totals.rows for entry in there):,} of {rows}"
            for number, place in enumerate(_places([_written(state, decision, entry) for entry in there])):
                first = (_number(decision), _time(decision.decided_ms), rows)
                table.add_row(*(first if not number else ("", "", "")), *place)
        tell(table)
    if state.deciding:
        tell("the decision about the next batch is being written")
    if state.open:
        tell(
            f"{counted(len(state.open), 'transaction')} of tasks open that no decision names: of a running batch, "
            "or left by a dead driver. Readers with read_committed wait until they end. If the query will not be "
            f"started again: {recover_command(settings)}"
        )


def _number(decision: Decision) -> str:
    """The batch's number; of a batch write its write.id."""
    return printable(decision.batch.query_id) if decision.batch.batch_id < 0 else f"{decision.batch.batch_id}"


def _fate(state: SinkState, decision: Decision, entry: Entry) -> str:
    """What became of a task's rows; of an earlier batch's tasks it is noted in the decision."""
    if decision is not state.decisions[-1]:
        return _LOST if entry.lost else "committed"
    fate = state.fates.get(entry.receipt_offset)
    if fate is None:
        return "unknown"
    return {"open": "to be committed", "aborted": _LOST}.get(fate.value, fate.value)


def _written(state: SinkState, decision: Decision, entry: Entry) -> Written | None:
    """Where a task's rows are, if that is known; the offsets of lost rows do not count."""
    return None if _fate(state, decision, entry) == _LOST else state.written.get(entry.receipt_offset)


def _joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """What all tasks together wrote to each partition."""
    found: dict[tuple[str, int], Span] = {}
    for span in spans:
        place = span.topic, span.partition
        found[place] = found[place].joined(span) if place in found else span
    return tuple(sorted(found.values()))


def _places(written: Sequence[Written | None]) -> list[tuple[str, str]]:
    """Partitions and offsets, a line each; the last lines say that some are not known."""
    known = [each for each in written if each is not None]
    places = [
        (f"{span.topic}-{span.partition}", f"{span.first_offset} to {span.last_offset} ({span.rows:,})")
        for span in _joined(span for each in known for span in each.spans)
    ]
    if any(each.left_out for each in known):
        places.append(("and more partitions", "not kept"))
    if len(known) < len(written):
        places.append(("", "not known any more"))
    return places or [("", "")]


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(sep=" ", timespec="seconds")
