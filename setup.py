"""Compiles what runs often: plain Python files, turned to C by Cython.

Every compiled module is listed here and nowhere else. Everything else about the build stands in pyproject.toml.

`LOOPS` run once per record, or byte, or call C. They are written for the compiler, with C types in their annotations.

`TURNS` are what the producer's I/O thread does once per batch, request and turn, from the appender's sealed batch to
`sendmsg` and back, what brokers do for every request and batch, from the socket to the log and to followers, and what
the simulated world does for every message. They are ordinary Python that runs as it is without a compiler; the `.pxd`
file beside a module says which of its classes become C structs and which of its methods C functions. That is what pays:
a class that stays Python's is no faster compiled. Interpreted, a batch of 16 KiB costs three times as much there, which
is as much as its 150 records cost in `send`. Attributes of these classes have types: a number that may be larger than
64 bits (a timeout of "never" in microseconds) is declared `object`, and a new attribute needs a line in the `.pxd`.
"""

import os
import re
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

LOOPS = [
    "ottla.async_functions",
    "ottla.client.held_calls",
    "ottla.records.append",
    "ottla.records.arrow_columns",
    "ottla.records.arrow_data",
    "ottla.records.awaiting",
    "ottla.records.buffers",
    "ottla.records.decode_columns",
    "ottla.records.delivery",
    "ottla.records.encode_columns",
    "ottla.records.intake",
    "ottla.records.key_column",
    "ottla.records.memory",
    "ottla.records.partitions",
    "ottla.records.record_parts",
    "ottla.records.row_digest",
    "ottla.records.split",
    "ottla.schemas.avro.decode",
    "ottla.schemas.avro.decode_rows",
    "ottla.schemas.avro.encode",
    "ottla.schemas.avro.encode_rows",
    "ottla.schemas.avro.program",
    "ottla.schemas.json_columns",
    "ottla.schemas.json_values",
    "ottla.schemas.key_texts",
    "ottla.schemas.protobuf.decode",
    "ottla.schemas.protobuf.decode_rows",
    "ottla.schemas.protobuf.encode",
    "ottla.schemas.protobuf.encode_rows",
]

TURNS = [
    "ottla.broker.apis.fetch",
    "ottla.broker.apis.port",
    "ottla.broker.apis.produce",
    "ottla.broker.connections",
    "ottla.broker.core",
    "ottla.broker.events",
    "ottla.broker.fetch_sessions",
    "ottla.broker.heartbeats",
    "ottla.broker.isr_proposals",
    "ottla.broker.log.leader_epochs",
    "ottla.broker.log.log",
    "ottla.broker.log.producer_state",
    "ottla.broker.log.segment",
    "ottla.broker.log.segment_index",
    "ottla.broker.log_upkeep",
    "ottla.broker.metrics",
    "ottla.broker.outbox",
    "ottla.broker.partition",
    "ottla.broker.purgatory",
    "ottla.broker.replica",
    "ottla.broker.replicas",
    "ottla.broker.request",
    "ottla.broker.request_channel",
    "ottla.broker.write_back",
    "ottla.client.appender_hooks",
    "ottla.client.callers_turn",
    "ottla.client.channel",
    "ottla.client.delivery_books",
    "ottla.client.event_loops_turn",
    "ottla.client.io_loop",
    "ottla.client.known_topics",
    "ottla.client.poller",
    "ottla.client.producer_driver",
    "ottla.client.waiting",
    "ottla.cluster.client_connection",
    "ottla.cluster.loop_schedule",
    "ottla.cluster.storage",
    "ottla.connection.core",
    "ottla.connection.events",
    "ottla.connection.metadata",
    "ottla.connection.node",
    "ottla.connection.refresh",
    "ottla.connection.sampled",
    "ottla.connection.traffic",
    "ottla.host.broker_machine",
    "ottla.host.crossing",
    "ottla.host.disk_faults",
    "ottla.host.links",
    "ottla.host.machine",
    "ottla.host.machine_clock",
    "ottla.host.schedule",
    "ottla.host.station",
    "ottla.producer.accumulator",
    "ottla.producer.batch",
    "ottla.producer.core",
    "ottla.producer.events",
    "ottla.producer.flight_limit",
    "ottla.producer.gate",
    "ottla.producer.idempotence",
    "ottla.producer.in_flight",
    "ottla.producer.metrics",
    "ottla.producer.partition_load",
    "ottla.producer.sender",
    "ottla.protocol.apis",
    "ottla.protocol.frames",
    "ottla.protocol.messages.produce",
    "ottla.protocol.primitives",
    "ottla.reader.core",
    "ottla.reader.position",
    "ottla.records.batch_header",
    "ottla.records.plain",
    "ottla.simulation.chance",
    "ottla.simulation.network",
    "ottla.simulation.scheduler",
    "ottla.simulation.trace",
    "ottla.simulation.witness",
    "ottla.timeouts",
    "ottla.value",
]


def extensions(names: list[str], optimized: str) -> list[Extension]:
    """One extension module for each of these Python modules."""
    return [
        Extension(name, [f"src/{name.replace('.', '/')}.py"], extra_compile_args=[optimized, "-g0"]) for name in names
    ]


def index_page(readme: str) -> str:
    """The README as an index of packages shows it: a link to a file of the repository would lead nowhere there."""
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"\1", readme)


setup(
    long_description=index_page(Path("README.md").read_text()),
    long_description_content_type="text/markdown",
    # Several compilers at once: one after the other takes more than a minute.
    options={"build_ext": {"parallel": os.cpu_count()}},
    ext_modules=[
        *cythonize(
            extensions(LOOPS, "-O3"),
            build_dir="build/cython",
            compiler_directives={
                "language_level": "3",
                "boundscheck": False,
                "wraparound": False,
                "cdivision": True,
                "initializedcheck": False,
                "binding": True,
                "embedsignature": True,
            },
        ),
        # Python's own meaning throughout: indexes are checked, and annotations are for the reader and for mypy.
        *cythonize(
            extensions(TURNS, "-O2"),
            build_dir="build/cython",
            compiler_directives={"language_level": "3", "binding": True, "annotation_typing": False},
        ),
    ],
)
