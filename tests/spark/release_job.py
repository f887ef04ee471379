"""A small job from topic to topic, for a PySpark of another release: a process of its own.

Arguments: the brokers, the name of the topic to read, a folder, and Spark's master. The topic is written to the topic
`<its name>-streamed`, by a query whose last micro-batch is repeated as after a crash, and to `<its name>-written`, by a
batch write that runs twice. Spark's version is the last line of its output.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Half of the records that the test writes, and a few.
OFFSETS_A_TRIGGER = 300


def stream(session: SparkSession, servers: str, source: str, checkpoint: Path) -> None:
    reader = session.readStream.format("ottla").option("kafka.bootstrap.servers", servers)
    reader = reader.option("subscribe", source).option("startingOffsets", "earliest")
    rows = reader.option("maxOffsetsPerTrigger", OFFSETS_A_TRIGGER).load().select("key", "value")
    writer = rows.writeStream.format("ottla").option("kafka.bootstrap.servers", servers)
    writer = writer.option("topic", f"{source}-streamed").option("sink.id", f"{source}-streamed")
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


def write(session: SparkSession, servers: str, source: str) -> None:
    reader = session.read.format("ottla").option("kafka.bootstrap.servers", servers)
    writer = reader.option("subscribe", source).load().select("key", "value").write.format("ottla").mode("append")
    writer = writer.option("kafka.bootstrap.servers", servers).option("topic", f"{source}-written")
    writer.option("write.id", source).save()


def forget_the_last(checkpoint: Path) -> None:
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    assert last > 0
    for name in (str(last), f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)


def main() -> None:
    from ottla.spark.session import local_session

    servers, source, folder, master = sys.argv[1:]
    session = local_session("ottla-release", settings={"spark.master": master})
    checkpoint = Path(folder)
    stream(session, servers, source, checkpoint)
    forget_the_last(checkpoint)
    stream(session, servers, source, checkpoint)
    for _ in range(2):
        write(session, servers, source)
    version = session.version
    session.stop()
    sys.stdout.write(f"{version}\n")


if __name__ == "__main__":
    main()
