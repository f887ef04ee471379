"""Properties files are read as Java reads them."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from ottla.client.properties import parse_properties, read_properties
from ottla.errors import ConfigError

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ada" password="a=b:c #d";'

TEXT = r"""
# a comment
  ! another one, with a backslash at its end \
security.protocol=SASL_SSL
 sasl.mechanism :  SCRAM-SHA-512
ssl.endpoint.identification.algorithm=
empty
linger.ms 5
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
    username="ada" \
    password="a=b:c #d";
a\ key\:with\=signs = x\ty\n\u00e9\q
twice=first
twice=second
trailing = blanks stay@@
path=C:\\keys\\ca.pem
odd=three\\\
  more
""".replace("@@", "  ")

VALUES = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "ssl.endpoint.identification.algorithm": "",
    "empty": "",
    "linger.ms": "5",
    "sasl.jaas.config": JAAS,
    "a key:with=signs": "x\ty\n\u00e9q",
    "twice": "second",
    "trailing": "blanks stay  ",
    "path": "C:\\keys\\ca.pem",
    "odd": "three\\more",
}


def test_everything_the_format_has_is_read() -> None:
    assert parse_properties(TEXT, "x") == VALUES


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_lines_may_end_as_they_do_elsewhere(end: str) -> None:
    assert parse_properties(TEXT.replace("\n", end), "x") == VALUES


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(b"\xef\xbb\xbfacks=all\n")
    assert read_properties(path) == {"acks": "all"}


def test_an_empty_file_holds_nothing() -> None:
    assert parse_properties("", "x") == {}


def test_what_cannot_be_read_is_told_with_file_and_line_and_without_the_value(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"client\.properties, line 3: .*hexadecimal") as caught:
        parse_properties("a=1\n\nsasl.password=secret\\u12", "client.properties")
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigError, match=r"missing\.properties cannot be read \(no such file"):
        read_properties(tmp_path / "missing.properties")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_properties(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="no text in UTF-8"):
        read_properties(tmp_path / "binary")


_READER = """
import java.io.*; import java.nio.charset.StandardCharsets; import java.util.*;
public class Read {
    public static void main(String[] files) throws IOException {
        for (String file : files) {
            Properties properties = new Properties();
            try (Reader reader = new InputStreamReader(new FileInputStream(file), StandardCharsets.UTF_8)) {
                properties.load(reader);
            }
            StringBuilder line = new StringBuilder();
            for (String name : new TreeSet<>(properties.stringPropertyNames()))
                for (String text : List.of(name, properties.getProperty(name))) {
                    for (char letter : text.toCharArray()) line.append(String.format("%04x", (int) letter));
                    line.append(',');
                }
            System.out.println(line);
        }
    }
}
"""


def test_any_text_is_read_as_java_reads_it(tmp_path: Path) -> None:
    java = shutil.which("java")
    if java is None or shutil.which("javac") is None:
        pytest.skip("needs a Java compiler")
    rng = random.Random(20)
    files = []
    for number in range(200):
        text = "".join(
            rng.choice(["a", "b", "=", ":", " ", "\t", "\\", "\n", "\r", "#", "!", "\\u0041", "é"]) for _ in range(60)
        )
        path = tmp_path / f"{number}.properties"
        # Java makes an entry without a name of a backslash at the very end, which nobody can mean.
        path.write_bytes(f"{text}\nend=here".encode())
        files.append(path)
    (tmp_path / "Read.java").write_text(_READER)
    done = subprocess.run(
        [java, str(tmp_path / "Read.java"), *map(str, files)], capture_output=True, text=True, timeout=120, check=True
    )
    for path, line in zip(files, done.stdout.split("\n"), strict=False):
        found = read_properties(path)
        names = sorted(found)
        expected = "".join(
            "".join(f"{ord(letter):04x}" for letter in text) + "," for name in names for text in (name, found[name])
        )
        assert expected == line, path.read_bytes()
