"""Prepares the classes that Spark loads at every start, so that the tests' many starts of it cost a third less.

    python tools/spark_archive.py          writes .tools/spark.jsa (150 MB), which `make test` has Java read

Java's class data sharing: a first Java notes which classes a stream and a few queries made it load, and keeps them as
they lie in memory. Another Java, another version of Spark or another class path takes no notice of the file. Where
there is no Java that runs Spark, nothing is written, and the tests do without.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ARCHIVE = Path(__file__).parents[1] / ".tools" / "spark.jsa"


def main() -> None:
    """Write the archive, in one step, by a Spark of a process of its own."""
    from ottla.errors import UserMistake
    from ottla.spark.java import find_java

    try:
        find_java()
    except UserMistake as reason:
        print(f"The tests start Spark without prepared classes: {reason}", file=sys.stderr)
        return
    print("Preparing the classes that Spark loads at each start in the tests, once: half a minute ...", file=sys.stderr)
    ARCHIVE.parent.mkdir(exist_ok=True)
    written = ARCHIVE.with_suffix(f".{os.getpid()}")
    options = f"-XX:ArchiveClassesAtExit={written} -Xlog:cds=off -Xlog:cds+dynamic=off"
    ended = subprocess.run(
        [sys.executable, __file__, "use Spark"],
        env=os.environ | {"SPARK_SUBMIT_OPTS": options},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    if ended.returncode or not written.exists():
        print("It failed (see above); the tests start Spark without them.", file=sys.stderr)
        return
    written.rename(ARCHIVE)


def use_spark() -> None:
    """Do with Spark what the tests do with it most, and end its Java in order."""
    from pyspark import SparkContext

    import ottla
    from ottla.spark.session import local_session

    quick = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
    with ottla.Cluster(brokers=1) as cluster, tempfile.TemporaryDirectory() as folder:
        for topic in ("rows", "result"):
            cluster.create_topic(topic, partitions=2)
        with ottla.Producer(cluster.bootstrap_servers) as producer:
            for number in range(100):
                producer.send("rows", str(number), str(number % 7))
        servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
        reading = {"subscribe": "rows", "startingOffsets": "earliest"}
        session = local_session("prepared classes", settings=quick)
        rows = session.readStream.format("ottla").options(**servers, **reading).load()
        writing = {"topic": "result", "sink.id": "result", "checkpointLocation": f"{folder}/checkpoint"}
        stream = rows.selectExpr("key", "value", "partition").writeStream.format("ottla").options(**servers, **writing)
        stream.trigger(availableNow=True).start().awaitTermination()
        stored = session.read.format("ottla").options(**servers, subscribe="result").load()
        stored.selectExpr("key", "length(value) length").write.parquet(f"{folder}/stored")
        found = session.read.parquet(f"{folder}/stored").repartition(2).groupBy("key").sum("length")
        assert len(found.collect()) == 7
        session.stop()
        # Java writes the archive when it ends by itself.
        java = SparkContext._gateway.proc
        java.stdin.close()
        java.wait()


if __name__ == "__main__":
    use_spark() if sys.argv[1:] else main()
