"""`ottla bench`: how fast ottla's producer and other clients of this machine are on the same brokers."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.command_config import CommandConfig, client_arguments
from ottla.cli.options import DEFAULT_BOOTSTRAP, Json, whole
from ottla.cli.output import new_table, tell
from ottla.cli.progress import Counter

if TYPE_CHECKING:
    from ottla.bench.run import Row

_FAILED = 1
_SECONDS_MAX, _BYTES_MAX = 600, 500_000


def bench(
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-servers",
            "-b",
            help="Measure on these brokers: host:port, several with commas; on an embedded cluster unless given.",
            metavar="ADDRESSES",
        ),
    ] = None,
    command_config: CommandConfig = None,
    client: Annotated[
        list[str] | None,
        typer.Option(
            "--client",
            help="Measure this client: ottla, 'ottla send_table', confluent-kafka or kafka-python; may be given "
            "several times. All that are installed unless given.",
            metavar="NAME",
        ),
    ] = None,
    seconds: Annotated[
        int,
        typer.Option(
            "--seconds",
            help="How long each client sends, twice.",
            parser=whole("--seconds", 1, _SECONDS_MAX, such_as=2),
            metavar="SECONDS",
        ),
    ] = 2,
    record_bytes: Annotated[
        int,
        typer.Option(
            "--record-bytes",
            help="The bytes of each value; keys have 8.",
            parser=whole("--record-bytes", 1, _BYTES_MAX, such_as=100),
            metavar="BYTES",
        ),
    ] = 100,
    as_json: Json = False,
) -> None:
    """Send with one client after the other, and compare records per second and the time to acknowledgements.

    Each client runs in a process of its own and sends to a topic of six partitions of its own, which is deleted
    afterwards: first as fast as it can (linger.ms=5), then 500 records a second without lingering, whose
    acknowledgements are timed (p50 and p99). All have acks=all, idempotence, batch.size=1000000, no compression, and
    learn the outcome of every record. What was acknowledged is compared with what the topic holds. The computer
    should have nothing else to do; figures of different computers cannot be compared.

    Of the file of --command-config the settings about security count, and are told to every client. Clients that
    cannot be told them (a keystore, tokens) are not measured.

    For example:

        ottla bench
        ottla bench -b localhost:9092 --seconds 10 --record-bytes 1000

    Exit status: 0 when all were measured, 1 when one failed, 2 when an address or an option cannot be used.
    """
    from ottla.bench import run
    from ottla.bench.security import for_others, security_of
    from ottla.producer.settings import ProducerSettings

    security: dict[str, Any] = {}
    if command_config is not None:
        bootstrap_servers, settings = client_arguments(
            command_config, ProducerSettings, bootstrap_servers or DEFAULT_BOOTSTRAP, DEFAULT_BOOTSTRAP
        )
        security = security_of(settings)
    others = for_others(security)
    untold = others if isinstance(others, str) else None
    names, missing = run.chosen(client or (), untold)
    rows: list[Row] = []
    with (
        nullcontext(bootstrap_servers) if bootstrap_servers else run.own_cluster() as servers,
        Counter("measure", "clients", len(names)) as counter,
    ):
        for row in run.bench(names, servers, record_bytes=record_bytes, seconds=seconds, security=security):
            rows.append(row)
            counter.count += 1
    if as_json:
        typer.echo(json.dumps(_told(rows, missing, bootstrap_servers, record_bytes, seconds)))
    else:
        _show(rows, missing, record_bytes)
    if untold is not None:
        typer.echo(
            f"ottla: clients other than ottla's cannot be told {untold} here, so they are not measured", err=True
        )
    if any(row.error for row in rows):
        raise typer.Exit(_FAILED)


def _show(rows: list[Row], missing: list[str], record_bytes: int) -> None:
    numbers = "records/s", "MB/s", "ack p50 ms", "ack p99 ms"
    table = new_table("client", "version", *numbers, right=numbers)
    for row in rows:
        if row.measured is not None:
            each = _figures(row, record_bytes)
            latencies = ("" if each[name] is None else f"{each[name]:.2f}" for name in ("ack_p50_ms", "ack_p99_ms"))
            table.add_row(
                row.client,
                row.measured.version,
                f"{each['records_per_s']:,.0f}",
                f"{each['mb_per_s']:,.1f}",
                *latencies,
            )
    if table.row_count:
        tell(table)
    for row in rows:
        if row.error is not None:
            typer.echo(f"ottla: {row.client} failed: {row.error}", err=True)
    if missing:
        typer.echo(f"ottla: not installed, so not measured: {', '.join(missing)}", err=True)


def _told(
    rows: list[Row], missing: list[str], bootstrap_servers: str | None, record_bytes: int, seconds: int
) -> dict[str, Any]:
    return {
        "bootstrap_servers": bootstrap_servers,
        "record_bytes": record_bytes,
        "seconds": seconds,
        "clients": [{"client": row.client, "error": row.error, **_figures(row, record_bytes)} for row in rows],
        "not_installed": missing,
    }


def _figures(row: Row, record_bytes: int) -> dict[str, Any]:
    measured = row.measured
    if measured is None:
        return {}
    per_s = measured.records / measured.seconds
    return {
        "version": measured.version,
        "records": measured.records,
        "seconds": round(measured.seconds, 3),
        "records_per_s": round(per_s),
        # Of keys and values.
        "mb_per_s": round(per_s * (record_bytes + 8) / 1_000_000, 2),
        "ack_p50_ms": measured.ack_p50_ms,
        "ack_p99_ms": measured.ack_p99_ms,
    }
