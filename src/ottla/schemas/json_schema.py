"""JSON Schema: JSON text that is checked against a schema when it is written and when it is read, one value at a time.

jsonschema-rs does the checks: it has all drafts from 4 on, and it is five times as fast as the next library. Its
regular expressions take time in proportion to a text's length, or to its square where they have lookarounds. A schema
without a draft is taken as draft 7, as Confluent's serializers do. `$ref` finds the given references, by their names or
their `$id`, and nothing else: no schema is fetched.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urljoin

from ottla.errors import MissingExtra, RecordError, UserMistake, of_row
from ottla.schemas.json_schema_steps import STEPS_MAX, Steps
from ottla.schemas.mistaken import advice

_TEXT_MAX: Final = 4_000_000
# Relative names in `$ref` are resolved against this URI; nothing is at that address.
_BASE: Final = "https://schemas.invalid/schema.json"
_SHOWN_MAX: Final = 300


class JsonSchemaError(UserMistake, ValueError):
    """A text is no JSON Schema, or refers to a schema that was not given."""


class JsonSchemaMismatch(RecordError):
    """A value does not match its schema, or is no JSON; the place in the value is named."""


class JsonSchema:
    """A schema with the schemas to which it refers, by the names in `$ref`."""

    def __init__(self, text: str, *, references: Mapping[str, str] | None = None) -> None:
        given = dict(references or {})
        size = len(text) + sum(map(len, given.values()))
        if size > _TEXT_MAX:
            raise JsonSchemaError(
                f"The schema and its references have {size} characters; at most {_TEXT_MAX} are read."
            )
        self.root = _loaded(text, "The schema")
        base = self.root.get("$id", _BASE) if isinstance(self.root, dict) else _BASE
        base = _joined(_BASE, base) if isinstance(base, str) else _BASE
        known = {}
        for name, other in given.items():
            made = known[_joined(base, name)] = _loaded(other, f"The reference {name!r}")
            # A schema may also be referred to by its own `$id`.
            if isinstance(made, dict) and isinstance(made.get("$id"), str):
                known.setdefault(_joined(base, made["$id"].rstrip("#")), made)
        self.base = base
        self._steps = Steps({**known, base: self.root})
        try:
            too_many = self._steps.are_too_many()
        except RecursionError:
            too_many = True
        if too_many:
            raise JsonSchemaError(
                f"The schema takes more than {STEPS_MAX} steps at one value: its references multiply; let each "
                "refer to fewer others."
            )
        self._validator = _validator(self.root, base, known)

    def meant(self, reference: str, base: str) -> tuple[Any, str]:
        """The schema to which a `$ref` in the document `base` refers, and that schema's document."""
        return self._steps.meant(reference, base)

    def check(self, value: Any, row: int | None = None) -> None:
        """JsonSchemaMismatch, with the first place that does not match, and with `row` if it is given."""
        try:
            if self._validator.is_valid(value):
                return
            error = next(iter(self._validator.iter_errors(value)))
        except ValueError as refused:
            # A value that JSON does not have, or one that is nested too deeply.
            raise _refused(value, row, str(refused)) from None
        raise _refused(value, row, error.message, error.instance_path)

    def encode_one(self, value: Any) -> bytes:
        """Check a value and return it as compact JSON."""
        self.check(value)
        try:
            return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise _refused(value, None, str(error)) from None

    def decode_one(self, payload: bytes, row: int | None = None) -> Any:
        """The value of a payload, after a check."""
        value = decoded(payload, row)
        self.check(value, row)
        return value


def decoded(payload: bytes, row: int | None = None, *, keeps_sign: bool = False) -> Any:
    """The value of JSON text; JsonSchemaMismatch, also for NaN and for numbers beyond a double.

    With `keeps_sign` -0 is -0.0, because the integer has no sign.
    """
    how: dict[str, Any] = {"parse_int": _signed} if keeps_sign else {}
    try:
        return json.loads(bytes(payload).decode(), parse_constant=_no_number, parse_float=_double, **how)
    except (ValueError, RecursionError) as error:
        raise _mismatch(row, [], f"it is no JSON: {error}") from None


def _signed(text: str) -> float:
    return -0.0 if text == "-0" else int(text)


def _double(text: str) -> float:
    made = float(text)
    # jsonschema-rs takes an infinity as null.
    if math.isinf(made):
        raise ValueError(f"{text:.40} is beyond a double")
    return made


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _loaded(text: str, what: str) -> Any:
    try:
        made = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JsonSchemaError(f"{what} is no JSON: {error}.") from None
    if not isinstance(made, (dict, bool)):
        raise JsonSchemaError(f"{what} is no JSON Schema, which is an object or true or false.")
    return made


def _joined(base: str, uri: str) -> str:
    try:
        return urljoin(base, uri)
    except ValueError as error:
        raise JsonSchemaError(f"This is no JSON Schema: {uri!r:.60} is no URI ({error}).") from None


def _validator(root: Any, base: str, known: Mapping[str, Any]) -> Any:
    try:
        import jsonschema_rs
    except ImportError:
        raise MissingExtra("JSON Schema needs jsonschema-rs: pip install 'ottla[schemas]'") from None

    def retrieve(uri: str) -> Any:
        if uri in known:
            return known[uri]
        raise LookupError("it is not among the references")

    names_draft = isinstance(root, dict) and "$schema" in root
    make: Any = jsonschema_rs.validator_for if names_draft else jsonschema_rs.Draft7Validator
    try:
        return make(root, retriever=retrieve, base_uri=base)
    except jsonschema_rs.ValidationError as error:
        place = place_of(error.instance_path)
        where = f" at {place!r}" if place else ""
        raise JsonSchemaError(f"This is no JSON Schema{where}: {error.message[:_SHOWN_MAX].rstrip('.')}.") from None
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise JsonSchemaError(f"This is no JSON Schema: {str(error)[:_SHOWN_MAX].rstrip('.')}.") from None


def place_of(path: Any) -> str:
    """A place in a value as text: `to.tags[1]`."""
    made = ""
    for step in path:
        made += f"[{step}]" if isinstance(step, int) else f".{step}" if made else str(step)
    return made


def _refused(value: Any, row: int | None, words: str, place: Sequence[str | int] = ()) -> JsonSchemaMismatch:
    """The error for a value that is refused with these words, or for its first part that JSON does not have."""
    path: list[str | int] = []
    part = value
    with contextlib.suppress(LookupError, TypeError):
        for step in place:
            part = part[step]
    # jsonschema-rs takes NaN and infinities as null.
    with contextlib.suppress(RecursionError):
        found = _first_no_json(value, path)
        if found is not None:
            (words, part), place = found, path[::-1]
    return _mismatch(row, place, words, advice(part, is_whole=not place))


def _first_no_json(value: Any, path: list[str | int]) -> tuple[str, Any] | None:
    """(what is wrong, the part) of the first part that JSON does not have; `path` gets the steps to it, last first."""
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, (list, tuple)):
        parts = enumerate(value)
    elif not (value is None or isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value))):
        return f"{value!r:.60} ({type(value).__name__}) cannot be written as JSON", value
    for step, part in parts:
        if isinstance(value, dict) and not isinstance(step, str):
            return f"its key {step!r:.60} is no text", step
        found = _first_no_json(part, path)
        if found is not None:
            path.append(step)
            return found
    return None


def _mismatch(row: int | None, path: Any, words: str, more: str = "") -> JsonSchemaMismatch:
    field = f"field {place_of(path)!r}" if path else ""
    told = f": {words[:_SHOWN_MAX].rstrip('.')}.{more}"
    if row is None:
        where = field or "the value"
        return JsonSchemaMismatch(f"{where[0].upper()}{where[1:]}{told}")
    return of_row(JsonSchemaMismatch, row, f", {field}{told}" if field else told)
