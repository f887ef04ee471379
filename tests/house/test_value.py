"""`Value`: equal, hashable and picklable by its fields."""

from __future__ import annotations

import copy
import pickle

from ottla.registry.registered import RegisteredSchema, SchemaReference


def test_a_value_crosses_processes() -> None:
    given = RegisteredSchema(1, "g", "AVRO", "text", (SchemaReference("n", "s", 2),), "s", 3)
    for found in (pickle.loads(pickle.dumps(given)), copy.deepcopy(given)):
        assert found == given
        assert hash(found) == hash(given)
