"""Advice for errors about objects that no schema takes: objects of classes, and pandas' NaT, NA and NaN."""

from __future__ import annotations

from typing import Any, Final

# How to make a dict of an object: by an attribute of its class.
_DICT_MAKERS: Final = {
    "__dataclass_fields__": "dataclasses.asdict",
    "model_dump": "{}.model_dump",
    "_asdict": "{}._asdict",
}
_MISSING: Final = ("NaTType", "NAType")


def is_missing(value: Any) -> bool:
    """Whether it is pandas.NaT or pandas.NA."""
    return type(value).__name__ in _MISSING


def advice(value: Any, *, is_whole: bool) -> str:
    """A sentence for the end of an error about this object, with a space before it; "" if there is no advice.

    `is_whole`: it is the object that a serializer was given, not a part of one.
    """
    kind = type(value)
    if is_missing(value) or (isinstance(value, float) and value != value):
        return " Give None where there is no value."
    for attribute, maker in _DICT_MAKERS.items():
        if hasattr(kind, attribute):
            maker = maker.format(kind.__qualname__)
            return f" Give the serializer to_dict={maker}, or a dict." if is_whole else f" {maker} makes a dict of it."
    return ""
