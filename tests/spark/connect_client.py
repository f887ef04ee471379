"""A client of a Spark Connect server, which has no ottla: a process of its own.

Arguments: the server's port, the brokers, a folder that the server sees, too, and what Spark says of a Python process
that started too slowly. It writes a batch to the topic `batch` (twice), reads it back, streams it to `streamed`, and by
foreachBatch to `each`; Spark is made to repeat the last micro-batch of either query. What it has learned it says as
JSON, the last line of its output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession

ROWS = 100
KEYS = 10


class Client:
    """What is done on the server, from here."""

    def __init__(self, session: SparkSession, bootstrap_servers: str, folder: Path, started_too_slowly: str) -> None:
        self.session = session
        self._servers = bootstrap_servers
        self._folder = folder
        self._started_too_slowly = started_too_slowly

    def write(self, rows: DataFrame, topic: str, **options: str) -> None:
        given = {name.replace("__", "."): value for name, value in options.items()}
        writer = rows.write.format("ottla").mode("append").option("kafka.bootstrap.servers", self._servers)
        writer.option("topic", topic).options(**given).save()

    def read(self, topic: str) -> DataFrame:
        reader = self.session.read.format("ottla").option("kafka.bootstrap.servers", self._servers)
        return reader.option("subscribe", topic).load()

    def stream(self, topic: str, foreach: Callable[[Any, int], None] | None = None) -> None:
        """Stream the topic `batch` to its end in several micro-batches; raises what the query raises.

        A query that Spark has ended for a slow start is started again, as its user would do.
        """
        reader = self.session.readStream.format("ottla").option("kafka.bootstrap.servers", self._servers)
        reader = reader.option("subscribe", "batch").option("startingOffsets", "earliest")
        rows = reader.option("maxOffsetsPerTrigger", ROWS // 2 + 1).load().select("key", "value")
        writer = rows.writeStream.option("checkpointLocation", str(self._folder / topic)).trigger(availableNow=True)
        if foreach is None:
            writer = writer.format("ottla").option("kafka.bootstrap.servers", self._servers)
            writer = writer.option("topic", topic).option("sink.id", topic)
        else:
            writer = writer.foreachBatch(foreach)
        while True:
            try:
                writer.start().awaitTermination()
                return
            except Exception as error:
                if self._started_too_slowly not in str(error):
                    raise

    def forget(self, topic: str) -> int:
        """Make Spark believe that it did not finish the last micro-batch, as after a crash; which one it was."""
        commits = self._folder / topic / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
        for name in (str(last), f".{last}.crc"):
            (commits / name).unlink(missing_ok=True)
        return last


def work(client: Client) -> dict[str, Any]:
    told: dict[str, Any] = {"spark": client.session.version}
    rows = client.session.range(0, ROWS, 1, 1).selectExpr(
        "cast(id as string) value", f"cast(id % {KEYS} as string) key"
    )
    for _ in range(2):
        client.write(rows, "batch", write__id="monday")
    sums = client.read("batch").selectExpr("count(*)", "sum(cast(cast(value as string) as long))").first()
    told["read"] = list(sums or ())

    client.stream("streamed")
    told["repeated"] = [client.forget("streamed")]
    client.stream("streamed")

    def nameless(rows: DataFrame, batch_id: int) -> None:
        client.write(rows, "each", sink__id="each")

    def named(rows: DataFrame, batch_id: int) -> None:
        client.write(rows, "each", sink__id="each", write__id=str(batch_id))

    try:
        client.stream("each", nameless)
    except Exception as error:
        told["refused"] = str(error)
    client.stream("each", named)
    told["repeated"].append(client.forget("each"))
    client.stream("each", named)
    return told


def main() -> None:
    # Installed here or not: nothing of it is needed where a client is.
    sys.modules["ottla"] = sys.modules["pyspark_ottla"] = None  # type: ignore[assignment]
    from pyspark.sql.connect.session import SparkSession

    port, servers, folder, started_too_slowly = sys.argv[1:]
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
    try:
        told = work(Client(session, servers, Path(folder), started_too_slowly))
    finally:
        session.stop()
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
