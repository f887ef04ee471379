"""Avro as Java's own library reads and writes it (the one that PySpark brings), for drawn schemas and evolutions."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.needs import lacking
from tests.schemas.avro_drawn import Names, encoded, evolved, records, types, values

from ottla.errors import UserMistake
from ottla.schemas.avro.decode import AvroDecoder
from ottla.schemas.avro.decode_rows import AvroRowDecoder
from ottla.schemas.avro.encode import AvroEncoder
from ottla.schemas.avro.encode_rows import AvroRowEncoder
from ottla.spark.java import find_java

pytestmark = pytest.mark.spark

Oracle = Callable[[Any, Any, bytes], bytes]
DRAWN = settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """What Java reads of a payload, as it writes it again by the reader's schema."""
    folder = tmp_path_factory.mktemp("oracle")
    try:
        java, _ = find_java()
    except UserMistake as missing:
        lacking("spark", missing)
    if "jdk.compiler" not in subprocess.check_output([java, "--list-modules"], text=True, timeout=60):
        lacking("spark", "this Java has no compiler")
    jars = os.pathsep.join(str(jar) for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    source = Path(__file__).with_name("AvroOracle.java")
    compiler = [java, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", folder, "-cp", jars, source]
    subprocess.run(compiler, check=True, timeout=300)
    process = subprocess.Popen(
        [java, "-cp", f"{folder}{os.pathsep}{jars}", "AvroOracle"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        bufsize=1,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    asked, told = process.stdin, process.stdout

    def ask(writer: Any, reader: Any, payload: bytes) -> bytes:
        pieces = [json.dumps(writer).encode(), json.dumps(reader).encode(), payload]
        asked.write(" ".join(base64.b64encode(piece).decode() for piece in pieces) + "\n")
        answer = told.readline().strip()
        assert answer[:1] == "=", (writer, reader, answer)
        return base64.b64decode(answer[1:])

    yield ask
    asked.close()
    process.wait(300)


@DRAWN
@given(data=st.data())
def test_java_reads_what_is_encoded(oracle, data):
    schema = data.draw(types(Names()))
    value = data.draw(values(schema))
    payload = AvroRowEncoder(json.dumps(schema)).encode_one(value)
    columns = AvroDecoder(json.dumps(schema)).decode(pa.array([payload]))
    assert pa.array(AvroEncoder(json.dumps(schema)).encode(columns)).to_pylist() == [payload]
    decoder = AvroRowDecoder(json.dumps(schema))
    # Java's maps have an order of their own.
    assert decoder.decode_one(oracle(schema, schema, payload)) == decoder.decode_one(payload)


@DRAWN
@given(data=st.data())
def test_one_schema_is_read_as_another_as_java_does(oracle, data):
    names = Names()
    writer = data.draw(records(names))
    reader = data.draw(evolved(writer, names))
    payload = encoded(writer, data.draw(values(writer)))
    texts = json.dumps(writer), json.dumps(reader)
    plain = AvroRowDecoder(texts[1])
    expected = plain.decode_one(oracle(writer, reader, payload))
    columns = AvroDecoder(*texts).decode(pa.array([payload]))
    [again] = pa.array(AvroEncoder(texts[1]).encode(columns)).to_pylist()
    assert plain.decode_one(again) == expected
    assert AvroRowDecoder(*texts).decode_one(payload) == expected
