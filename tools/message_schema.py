"""Kafka's message descriptors, read and made definite.

A descriptor says of every field for which versions it exists, may be null and is tagged, in open ranges ("3+"). Here
all of that is clipped to the versions in which the struct can occur at all, so that whoever writes code from it
branches only where versions really differ. The format is described in Kafka's
clients/src/main/resources/common/message/README.md and in KIP-482.
"""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Any

FOLDER_IN_JAR = "common/message/"
NEVER = 1 << 15


class DescriptorError(Exception):
    """A descriptor uses something that the generator does not know; the message says where and what."""


@dataclass(frozen=True)
class Versions:
    """A range of versions, both ends included; empty where `low` is above `high`."""

    low: int
    high: int

    @staticmethod
    def parse(text: str | None) -> Versions:
        """From the descriptors' notation: "3-13", "9+", "4", "none"."""
        if text is None or text == "none":
            return Versions(1, 0)
        if text.endswith("+"):
            return Versions(int(text[:-1]), NEVER)
        low, _, high = text.partition("-")
        return Versions(int(low), int(high or low))

    def __and__(self, other: Versions) -> Versions:
        return Versions(max(self.low, other.low), min(self.high, other.high))

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __bool__(self) -> bool:
        return self.low <= self.high

    def hull(self, other: Versions) -> Versions:
        """The smallest range that holds both."""
        return Versions(min(self.low, other.low), max(self.high, other.high))


@dataclass
class Field:
    """One field of a struct; `kind` is a primitive's name or a struct's, `is_array` says whether there are many."""

    kafka_name: str
    name: str
    kind: str
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    ignorable: bool
    default: Any
    flexible_from: int

    @property
    def is_struct(self) -> bool:
        return self.kind[0].isupper()


@dataclass
class Struct:
    """A struct with the fields that can occur in it, and the versions in which it can occur itself."""

    name: str
    used_as: str
    versions: Versions
    fields: list[Field] = dataclass_field(default_factory=list)


@dataclass
class Message:
    """A request, a response or a header: its structs by name, the message itself first."""

    name: str
    api_key: int | None
    versions: Versions
    flexible_from: int
    structs: dict[str, Struct] = dataclass_field(default_factory=dict)


def snake_case(name: str) -> str:
    """`TopicData` -> `topic_data`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def read_descriptor(jar: Path, name: str) -> dict[str, Any]:
    """The descriptor `name` ("ProduceRequest") out of the kafka-clients jar."""
    with zipfile.ZipFile(jar) as archive:
        try:
            text = archive.read(f"{FOLDER_IN_JAR}{name}.json").decode()
        except KeyError:
            raise DescriptorError(f"{jar.name} holds no descriptor {name}.json") from None
    loaded: dict[str, Any] = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    return loaded


def stable_versions(descriptor: dict[str, Any]) -> Versions:
    """The valid versions, without a latest one that Kafka itself does not count as stable."""
    versions = Versions.parse(descriptor["validVersions"])
    if descriptor.get("latestVersionUnstable"):
        return Versions(versions.low, versions.high - 1)
    return versions


def parse_message(descriptor: dict[str, Any], versions: Versions) -> Message:
    """The message as it is between the given versions."""
    if not versions:
        raise DescriptorError(f"{descriptor['name']} exists in no version")
    flexible = Versions.parse(descriptor["flexibleVersions"])
    message = Message(
        name=descriptor["name"],
        api_key=descriptor.get("apiKey"),
        versions=versions,
        flexible_from=flexible.low if flexible else NEVER,
    )
    common = {struct["name"]: struct["fields"] for struct in descriptor.get("commonStructs", ())}
    _add_struct(message, common, message.name, descriptor["fields"], versions, used_as="")
    return message


def separate_names(request: Message, response: Message) -> None:
    """Give structs of the same name in both messages different ones: `RequestTopicData`, `ResponseTopicData`.

    The two live in one module, and Kafka describes them differently.
    """
    shared = request.structs.keys() & response.structs.keys()
    for message, prefix in ((request, "Request"), (response, "Response")):
        for struct in message.structs.values():
            for field in struct.fields:
                if field.kind in shared:
                    field.kind = prefix + field.kind
        for name in sorted(shared):
            message.structs[name].name = prefix + name
        message.structs = {struct.name: struct for struct in message.structs.values()}


def _add_struct(
    message: Message,
    common: dict[str, Any],
    name: str,
    fields: list[dict[str, Any]],
    versions: Versions,
    used_as: str,
) -> None:
    known = message.structs.get(name)
    if known is not None:
        versions = versions.hull(known.versions)
    struct = message.structs[name] = Struct(name, known.used_as if known else used_as, versions)
    for described in fields:
        parsed = _parse_field(described, struct, message)
        if not parsed.versions:
            continue
        struct.fields.append(parsed)
        if parsed.is_struct:
            inner = described.get("fields") or common.get(parsed.kind)
            if inner is None:
                raise DescriptorError(f"{message.name}: nothing describes the struct {parsed.kind}")
            where = f"{name}.{parsed.name}"
            _add_struct(message, common, parsed.kind, inner, parsed.versions, used_as=where)


def _parse_field(described: dict[str, Any], struct: Struct, message: Message) -> Field:
    kind = described["type"]
    is_array = kind.startswith("[]")
    kind = kind.removeprefix("[]")
    versions = Versions.parse(described["versions"]) & struct.versions
    tag = described.get("tag")
    nullable = Versions.parse(described.get("nullableVersions")) & versions
    if tag is not None and versions != Versions.parse(described["taggedVersions"]) & versions:
        raise DescriptorError(f"{struct.name}.{described['name']} is tagged in some of its versions only")
    if tag is not None and nullable and described.get("default") != "null":
        raise DescriptorError(f"{struct.name}.{described['name']} is tagged and nullable, and null is not its default")
    flexible_from = message.flexible_from
    if "flexibleVersions" in described:
        own = Versions.parse(described["flexibleVersions"])
        flexible_from = own.low if own else NEVER
    return Field(
        kafka_name=described["name"],
        name=snake_case(described["name"]),
        kind=kind,
        is_array=is_array,
        versions=versions,
        nullable=nullable,
        tag=tag,
        ignorable=bool(described.get("ignorable", False)),
        default=_default(described, kind, is_array),
        flexible_from=flexible_from,
    )


def _default(described: dict[str, Any], kind: str, is_array: bool) -> Any:
    """The default as a Python value; None for null, and for structs, whose default is a struct of defaults."""
    given = described.get("default")
    if given == "null":
        return None
    if is_array:
        return []
    if kind == "string":
        return given or ""
    if kind == "bool":
        return given in (True, "true")
    if kind == "float64":
        return float(given or 0)
    if kind == "bytes":
        return b""
    if kind == "uuid":
        return bytes(16)
    if kind == "records" or kind[0].isupper():
        return None
    return int(str(given or 0), 0)
