"""What librdkafka itself says of its settings: the list that its CONFIGURATION.md is made of."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest


def properties(folder: Path) -> dict[str, str]:
    """Whom each setting is for: C consumers, P producers, * both; skips where confluent-kafka has no such library."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    libraries = list(Path(confluent_kafka.__file__).parents[1].glob("confluent_kafka.libs/librdkafka*"))
    if not libraries:
        pytest.skip("confluent-kafka brings no library of its own here")
    library, libc = ctypes.CDLL(str(libraries[0])), ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    page = folder / "properties.md"
    file = ctypes.c_void_p(libc.fopen(str(page).encode(), b"w"))
    library.rd_kafka_conf_properties_show(file)
    libc.fclose(file)
    found = dict(re.findall(r"^([a-z][\w.]+) +\| +([CP*]) +\|", page.read_text(), flags=re.MULTILINE))
    assert len(found) > 150
    return found
