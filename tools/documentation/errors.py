"""Writes the reference of errors from the source: the tree of classes, and Kafka's error codes."""

from __future__ import annotations

import ast

from tools.documentation.api import definition, parsed, prose

from ottla import errors
from ottla.protocol import error_codes

INTRODUCTION = """\
# Errors

Every error that ottla raises is an `OttlaError`; its message is one sentence that says what, where, what is allowed and
what to do. `UserMistake` and what derives from it is about something that was given: the command line shows it as one
sentence and ends with exit status 2. What to do about the most frequent ones stands in
[Troubleshooting](troubleshooting.md).

Exactly one of three marks is true of every error, with the meaning that Kafka's Java client gives them (KIP-1050):

- `retriable`: the same may work when it is tried again. What ottla tries again by itself is raised only when the time
  for that was over.
- `abortable`: what was asked for has failed, and a transaction that it was part of must be aborted. The client works
  on.
- `fatal`: the client cannot go on. Close it, and make a new one when the cause is gone; but not after a
  `ProducerFenced`, since another producer has taken over.

`topic`, `partition` and `broker_id` say where it happened, where that is known.

## Classes

```{py:currentmodule} ottla
```
"""
CODES = """
## Kafka's error codes

When a broker answers with one of these codes, the error is a `KafkaError` with this `code` and `name`. For a few codes
the mark depends on the request: `INVALID_PRODUCER_EPOCH` is abortable in an answer to Produce, and fatal in one from a
transaction coordinator.

| code | name | mark | meaning |
|---|---|---|---|
"""


def write_errors() -> str:
    """errors.md."""
    classes = [node for node in parsed("ottla.errors").body if isinstance(node, ast.ClassDef)]
    return INTRODUCTION + "\n".join(map(tell_class, classes)) + CODES + "\n".join(rows()) + "\n"


def tell_class(node: ast.ClassDef) -> str:
    """One class: what it derives from, its mark, its docstring."""
    kind = getattr(errors, node.name)
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    mark = "by its cause" if node.name in VARIABLE else mark_of(kind)
    text = prose(ast.get_docstring(definition(kind)))
    return f"\n:::{{py:exception}} {node.name}\nDerives from `{bases}`; {mark}.\n\n{text}\n:::\n"


# Instances of these carry the mark of what happened.
VARIABLE = {"OttlaError", "KafkaError", "DeliveryError", "DeliveryFailed", "DeliveryUnknown", "RegistryError"}


def mark_of(kind: type[errors.OttlaError]) -> str:
    """The mark of every instance of a class."""
    return "retriable" if kind.retriable else "fatal" if kind.fatal else "abortable"


def rows() -> list[str]:
    """One row for each code there is."""
    codes = [code for name, code in vars(error_codes.ErrorCode).items() if name.isupper() and code]
    made = []
    for code in sorted(codes):
        error = error_codes.kafka_error(code)
        mark = "retriable" if error.retriable else "fatal" if error.fatal else "abortable"
        meaning = str(error).removeprefix(f"{error.name}: ")
        made.append(f"| {code} | `{error.name}` | {mark} | {meaning} |")
    return made
