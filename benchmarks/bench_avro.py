"""Avro by columns: ottla against fastavro row by row, and against arrow-avro (Rust), the same columns on one core.
Then objects one by one, which is what `send` does: ottla against fastavro. That is the part `columns`; the part
`registry` sends and reads with a broker and a registry (`schema_speed.py`).

All three are timed by the processor time of their thread, round after round in turn, and the best round counts: other
work on the machine only ever adds. arrow-avro is built by cargo into .tools; where there is none, it is left out.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import thread_time
from typing import Any

import fastavro
import pyarrow as pa

from benchmarks.avro_payloads import PREFIX, SCHEMA, framed, keep, orders
from benchmarks.parts import chosen, run_parts
from benchmarks.schema_speed import measure
from ottla.schemas.avro.decode import AvroDecoder
from ottla.schemas.avro.decode_rows import AvroRowDecoder
from ottla.schemas.avro.encode import AvroEncoder
from ottla.schemas.avro.encode_rows import AvroRowEncoder

ROWS = 100_000
# A batch as readers hand them on; arrow-avro is given the same.
BATCH_ROWS = 8192
FASTAVRO_MUST = 40
ARROW_AVRO_MUST = 0.8
_CRATE = Path(__file__).with_name("arrow_avro")
_BUILT = Path(__file__).parents[1] / ".tools" / "arrow_avro"


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """The parts that were asked for."""
    return run_parts(PARTS, chosen("avro", PARTS, arguments.only), arguments)


def columns(arguments: argparse.Namespace) -> dict[str, Any]:
    """Rows per second of each, and how many times as fast ottla is."""
    parsed = fastavro.parse_schema(SCHEMA)
    values = list(orders(ROWS))
    payloads = framed(values, parsed)
    column = pa.array(payloads)
    batches = [column.slice(begin, BATCH_ROWS) for begin in range(0, ROWS, BATCH_ROWS)]
    decoder, encoder = AvroDecoder(json.dumps(SCHEMA)), AvroEncoder(json.dumps(SCHEMA))
    rows_decoder, rows_encoder = AvroRowDecoder(json.dumps(SCHEMA)), AvroRowEncoder(json.dumps(SCHEMA))
    assert [rows_encoder.encode_one(each, PREFIX) for each in values] == payloads
    decoded = [decoder.decode(batch, skip=len(PREFIX)) for batch in batches]
    assert [pa.array(encoder.encode(rows, prefix=PREFIX)) for rows in decoded] == batches
    best: dict[str, float] = {}
    # A round of fastavro takes as long as forty of ours, so it has a part of the rows.
    some = ROWS // 10
    ways: dict[str, tuple[int, Callable[[], object]]] = {
        "decode ottla": (ROWS, lambda: [decoder.decode(batch, skip=len(PREFIX)) for batch in batches]),
        "encode ottla": (ROWS, lambda: [encoder.encode(rows, prefix=PREFIX) for rows in decoded]),
        "decode_one ottla": (some, lambda: [rows_decoder.decode_one(each, len(PREFIX)) for each in payloads[:some]]),
        "encode_one ottla": (some, lambda: [rows_encoder.encode_one(each, PREFIX) for each in values[:some]]),
        "decode fastavro": (some, lambda: by_rows(payloads[:some], parsed)),
        "encode fastavro": (some, lambda: framed(values[:some], parsed)),
    }
    gc.disable()
    program = arrow_avro()
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "payloads")
        keep(kept, [json.dumps(SCHEMA).encode(), *payloads])
        for _ in range(3 * arguments.repeat):
            for name, (rows, way) in ways.items():
                note(best, name, rows, timed(way))
            if program is not None:
                told = json.loads(subprocess.check_output([program, kept, str(BATCH_ROWS), "3"], timeout=300))
                note(best, "decode arrow-avro", ROWS, min(told["decode_s"]))
                note(best, "encode arrow-avro", ROWS, min(told["encode_s"]))
    gc.enable()
    results: dict[str, Any] = {}
    for doing in ("decode", "encode"):
        figures: dict[str, Any] = {"ottla_rows_per_s": round(best[f"{doing} ottla"])}
        for peer, must in (("fastavro", FASTAVRO_MUST), ("arrow-avro", ARROW_AVRO_MUST)):
            if f"{doing} {peer}" in best:
                ratio = round(best[f"{doing} ottla"] / best[f"{doing} {peer}"], 2)
                figures[peer] = {
                    "rows_per_s": round(best[f"{doing} {peer}"]),
                    "ratio": ratio,
                    "must": must,
                    "ok": ratio >= must,
                }
        one = best[f"{doing}_one ottla"]
        figures["one_by_one"] = {"rows_per_s": round(one), "ratio": round(one / best[f"{doing} fastavro"], 2)}
        results[doing] = figures
    return results


def by_rows(payloads: Sequence[bytes], parsed: Any) -> list[Any]:
    """What fastavro reads, a row at a time."""
    return [fastavro.schemaless_reader(io.BytesIO(payload[len(PREFIX) :]), parsed, None) for payload in payloads]


def timed(way: Callable[[], object]) -> float:
    """Processor seconds of one round."""
    before = thread_time()
    way()
    return thread_time() - before


def note(best: dict[str, float], name: str, rows: int, seconds: float) -> None:
    """Keep the best rate."""
    best[name] = max(best.get(name, 0), rows / seconds)


def arrow_avro() -> Path | None:
    """The program that measures arrow-avro, built if need be; None where there is no cargo."""
    if shutil.which("cargo") is None:
        print("arrow-avro is left out: there is no cargo")
        return None
    command = ["cargo", "build", "--release", "--quiet", "--locked", "--manifest-path", _CRATE / "Cargo.toml"]
    subprocess.run([*command, "--target-dir", _BUILT], check=True, timeout=1800)
    return _BUILT / "release" / "arrow_avro_bench"


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "columns": columns,
    "registry": lambda arguments: measure(arguments.repeat),
}
