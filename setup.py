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

What is called less than once a request gains nothing. Some of it is here all the same: it runs while a caller sends its
own record, and no signal handler may get in there. docs/performance.md says how much speed is lost without some groups
of the others, or if they are compiled for size. After a change of this file all is compiled again.
"""

import os
import re
import sys
import threading
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

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
    "ottla.records.record_walk",
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
    "ottla.client.callers_turn",
    "ottla.client.channel",
    "ottla.client.delivery_books",
    "ottla.client.io_loop",
    "ottla.client.poller",
    "ottla.client.producer_driver",
    "ottla.client.thread_waits",
    "ottla.client.waiting",
    "ottla.cluster.client_connection",
    "ottla.cluster.loop_schedule",
    "ottla.cluster.storage",
    "ottla.connection.asks",
    "ottla.connection.connections",
    "ottla.connection.core",
    "ottla.connection.events",
    "ottla.connection.metadata",
    "ottla.connection.node",
    "ottla.connection.nodes",
    "ottla.connection.refresh",
    "ottla.connection.request",
    "ottla.connection.sampled",
    "ottla.connection.standing",
    "ottla.connection.traffic",
    "ottla.host.broker_runner",
    "ottla.host.crossing",
    "ottla.host.disk_faults",
    "ottla.host.links",
    "ottla.host.runner",
    "ottla.host.machine_clock",
    "ottla.host.schedule",
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

# What Cython would write into each of these modules is written into this one.
SHARED = "ottla._cython"

# Without the tables for C++'s exceptions, which nothing here throws: a tenth of each file.
NO_UNWIND_TABLES = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"] if sys.platform == "linux" else []
# Without the names of what is not called from outside: a seventh of each file.
STRIPPED = ["-Wl,-s"] if sys.platform == "linux" else []
WRITTEN = Path("build/cython")


def extensions(names: list[str], optimized: str, suffix: str = ".py") -> list[Extension]:
    """One extension module for each of these modules, made of the file with this suffix."""
    return [
        Extension(
            name,
            [f"src/{name.replace('.', '/')}{suffix}"],
            extra_compile_args=[optimized, "-g0", *NO_UNWIND_TABLES],
            extra_link_args=STRIPPED,
        )
        for name in names
    ]


def say(words: str) -> None:
    """Tell how far the build is: it takes minutes."""
    print(words, file=sys.stderr, flush=True)


class Compile(build_ext):
    """Writes C and compiles it, both with all processors, and counts aloud."""

    def run(self) -> None:
        leave_nothing_old({*LOOPS, *TURNS, SHARED})
        loops = [each for each in self.extensions if each.name in LOOPS]
        turns = [each for each in self.extensions if each.name in TURNS]
        shared = [each for each in self.extensions if each.name == SHARED]
        write_c(
            [*shared, *loops],
            boundscheck=False,
            wraparound=False,
            cdivision=True,
            initializedcheck=False,
            embedsignature=True,
        )
        # Python's own meaning throughout: indexes are checked, and annotations are for the reader and for mypy.
        write_c(turns, annotation_typing=False)
        super().run()

    def build_extensions(self) -> None:
        self._stale = {each.name for each in self.extensions if self._is_stale(each)}
        self._begun = 0
        self._counting = threading.Lock()
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        if ext.name in self._stale:
            with self._counting:
                self._begun += 1
                say(f"Compiling {self._begun} of {len(self._stale)}: {ext.name}")
            super().build_extension(ext)
        else:
            # Compiled in place already: a wheel and an editable install, which are built elsewhere, take it from there.
            built = self.get_ext_fullpath(ext.name)
            self.mkpath(os.path.dirname(built))
            self.copy_file(self._in_place(ext), built)

    def _is_stale(self, ext: Extension) -> bool:
        return bool(self.force) or newer_group([*ext.sources, *ext.depends], self._in_place(ext), "newer")

    def _in_place(self, ext: Extension) -> str:
        return os.path.join("src", self.get_ext_filename(ext.name))


def leave_nothing_old(names: set[str]) -> None:
    """Remove what modules were compiled to that are not listed any more, and C that was written otherwise.

    Python would load the one, and the other would be taken for new: it is newer than the Python file.
    """
    for built in Path("src").rglob("*.so"):
        if ".".join((*built.relative_to("src").parts[:-1], built.name.partition(".")[0])) not in names:
            built.unlink()
    for written in WRITTEN.rglob("*.c"):
        if written.stat().st_mtime < Path("setup.py").stat().st_mtime:
            written.unlink()


def write_c(modules: list[Extension], **directives: object) -> None:
    """Give each module the C file made of its Python file, written anew where the Python is newer."""
    say(f"Writing C for {len(modules)} modules, where it is not there yet ...")
    made = cythonize(
        modules,
        build_dir=str(WRITTEN),
        nthreads=os.cpu_count() or 1,
        quiet=True,
        shared_utility_qualified_name=SHARED,
        compiler_directives={"language_level": "3", "binding": True, "auto_pickle": False, **directives},
    )
    for module, as_c in zip(modules, made, strict=True):
        assert module.name == as_c.name
        module.sources, module.depends = as_c.sources, as_c.depends


def index_page() -> str:
    """The README for a package index, where a link to a file of the repository leads nowhere and becomes words."""
    text = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    return re.sub(r"!?\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", text)


def main() -> None:
    setup(
        cmdclass={"build_ext": Compile},
        options={"build_ext": {"parallel": os.cpu_count()}},
        ext_modules=[*extensions([SHARED], "-O2", ".c"), *extensions(LOOPS, "-O3"), *extensions(TURNS, "-O2")],
        long_description=index_page(),
        long_description_content_type="text/markdown",
    )


# The processes that write C load this file, too, where processes are not forked.
if __name__ == "__main__":
    main()
