"""Writes src/ottla/protocol/messages/ from the descriptors inside Apache Kafka's kafka-clients jar.

    python tools/generate_messages.py            # write the modules
    python tools/generate_messages.py --check    # exit 1 where a module is not what would be written

To support another API, add its name to `APIS`. Code is written straight-line: one branch where versions differ,
neighbouring fields of fixed size packed at once. Nothing of this is needed at run time.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.kafka_jars import VERSION, JarsUnavailable, fetch  # noqa: E402
from tools.message_code import StructWriter  # noqa: E402
from tools.message_schema import (  # noqa: E402
    DescriptorError,
    Message,
    parse_message,
    read_descriptor,
    separate_names,
    snake_case,
    stable_versions,
)

APIS = (
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "OffsetFetch",
    "FindCoordinator",
    "JoinGroup",
    "Heartbeat",
    "LeaveGroup",
    "SyncGroup",
    "DescribeGroups",
    "ListGroups",
    "ApiVersions",
    "CreateTopics",
    "DeleteTopics",
    "InitProducerId",
    "DeleteGroups",
    "SaslHandshake",
    "DeleteRecords",
    "OffsetForLeaderEpoch",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "WriteTxnMarkers",
    "TxnOffsetCommit",
    "DescribeConfigs",
    "AlterConfigs",
    "DescribeLogDirs",
    "SaslAuthenticate",
    "CreatePartitions",
    "ElectLeaders",
    "IncrementalAlterConfigs",
    "OffsetDelete",
    "AlterPartition",
    "DescribeCluster",
    "DescribeProducers",
    "BrokerHeartbeat",
    "DescribeTransactions",
    "ListTransactions",
    "GetTelemetrySubscriptions",
    "PushTelemetry",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "DescribeTopicPartitions",
    "UpdateFeatures",
    "DescribeQuorum",
    "AlterPartitionReassignments",
    "ListPartitionReassignments",
    "DescribeClientQuotas",
    "AlterClientQuotas",
    "ListConfigResources",
)

MESSAGES_FOLDER = ROOT / "src" / "ottla" / "protocol" / "messages"
LINE_CHARACTERS_MAX = 120
# Where the names come from that the classes use.
SOURCE_OF = {
    "Buffer": "ottla.protocol.primitives",
    "Encoder": "ottla.protocol.primitives",
    "Decoder": "ottla.protocol.primitives",
    "Any": "typing",
    "Self": "typing",
    "Struct": "struct",
    "ABSENT": "ottla.protocol.message",
    "ApiMessage": "ottla.protocol.message",
    "Message": "ottla.protocol.message",
    "ZERO_UUID": "ottla.protocol.message",
    "UnsupportedField": "ottla.protocol.errors",
}


def write_module(title: str, messages: list[Message]) -> str:
    """The source of one module; the layout of its text is left to ruff."""
    layouts: dict[str, str] = {}
    classes: list[str] = []
    for message in messages:
        for struct in message.structs.values():
            classes += StructWriter(message, struct, layouts).lines()
    body = [f'{name} = Struct("{code}")' for name, code in sorted(layouts.items())] + ["", "", *classes]
    opening = f'"""{title}: {" and ".join(message.name for message in messages)} of Apache Kafka {VERSION}.'
    if len(opening) > LINE_CHARACTERS_MAX:
        opening = f'"""{title}: its request and its response, of Apache Kafka {VERSION}.'
    return "\n".join(
        [
            opening,
            "",
            "Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.",
            '"""',
            "",
            "# ruff: noqa: RUF023  (fields stand in the order of the wire)",
            "",
            "from __future__ import annotations",
            "",
            *import_lines("\n".join(body)),
            "",
            *body,
        ]
    )


def import_lines(body: str) -> list[str]:
    """Imports of exactly the names that the body uses."""
    code = re.sub(r'""".*?"""', "", body)
    modules: dict[str, list[str]] = {}
    for name, module in SOURCE_OF.items():
        if re.search(rf"\b{name}\b", code):
            modules.setdefault(module, []).append(name)
    order = sorted(modules, key=lambda module: (module.startswith("ottla"), module))
    lines = [f"from {module} import {', '.join(sorted(modules[module], key=ruff_order))}" for module in order]
    first_own = next((place for place, module in enumerate(order) if module.startswith("ottla")), 0)
    return [*lines[:first_own], "", *lines[first_own:]]


def ruff_order(name: str) -> tuple[bool, str]:
    """Constants before classes, as ruff sorts imports."""
    return not name.isupper(), name


def write_table(messages: dict[str, Message]) -> str:
    """The source of messages/__init__.py: each API's key by name, which module holds it, and its versions."""
    in_order = sorted(messages.items(), key=lambda pair: pair[1].api_key or 0)
    names = [f"{snake_case(api).upper()} = {message.api_key}" for api, message in in_order]
    rows = [f'    {snake_case(api).upper()}: ("{snake_case(api)}", "{api}"),' for api, _ in in_order]
    spans = [(snake_case(api).upper(), message.versions) for api, message in in_order]
    versions = [f"    {name}: ({span.low}, {span.high})," for name, span in spans]
    return "\n".join(
        [
            f'"""One module per API of Apache Kafka {VERSION}: its request, its response, and the structs in them.',
            "",
            "Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.",
            '"""',
            "",
            "from __future__ import annotations",
            "",
            *names,
            "",
            "# API key -> module, and the name that `Request` and `Response` are appended to.",
            "MODULES: dict[int, tuple[str, str]] = {",
            *rows,
            "}",
            "",
            "# API key -> lowest and highest version that both messages have.",
            "VERSIONS: dict[int, tuple[int, int]] = {",
            *versions,
            "}",
            "",
        ]
    )


def read_api(jar: Path, api: str) -> tuple[Message, Message]:
    """The request and the response of an API, in the versions in which both are stable."""
    described = [read_descriptor(jar, f"{api}{kind}") for kind in ("Request", "Response")]
    versions = stable_versions(described[0]) & stable_versions(described[1])
    request, response = (parse_message(descriptor, versions) for descriptor in described)
    separate_names(request, response)
    return request, response


def generate(jar: Path, apis: tuple[str, ...]) -> dict[str, str]:
    """File name -> source, for all APIs, the headers and the table of them."""
    sources: dict[str, str] = {}
    requests: dict[str, Message] = {}
    for api in apis:
        request, response = read_api(jar, api)
        requests[api] = request
        sources[f"{snake_case(api)}.py"] = write_module(api, [request, response])
    headers = [read_descriptor(jar, f"{kind}Header") for kind in ("Request", "Response")]
    sources["headers.py"] = write_module(
        "What precedes every message", [parse_message(header, stable_versions(header)) for header in headers]
    )
    sources["__init__.py"] = write_table(requests)
    return {name: formatted(name, source) for name, source in sources.items()}


def formatted(name: str, source: str) -> str:
    """The source as `ruff format` leaves it."""
    path = MESSAGES_FOLDER / name
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(path), "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DescriptorError(f"ruff could not format {name}: {done.stderr.strip()}")
    return done.stdout


def stale(sources: dict[str, str], folder: Path) -> list[str]:
    """The names of modules that are missing, different, or should not be there."""
    found = {path.name: path.read_text() for path in folder.glob("*.py")}
    return sorted(name for name in sources.keys() | found.keys() if sources.get(name) != found.get(name))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the protocol messages from Kafka's descriptors.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where something would change")
    parser.add_argument("--jars", type=Path, help="the folder with Kafka's jars (fetched where it is not given)")
    given = parser.parse_args(arguments)
    try:
        sources = generate(fetch(given.jars) / f"kafka-clients-{VERSION}.jar", APIS)
    except (JarsUnavailable, DescriptorError) as error:
        print(error, file=sys.stderr)
        return 2
    changed = stale(sources, MESSAGES_FOLDER)
    if given.check:
        for name in changed:
            print(f"{name} is not what tools/generate_messages.py would write; run it", file=sys.stderr)
        return 1 if changed else 0
    MESSAGES_FOLDER.mkdir(exist_ok=True)
    for name in changed:
        if name in sources:
            (MESSAGES_FOLDER / name).write_text(sources[name])
        else:
            (MESSAGES_FOLDER / name).unlink()
    print(f"{len(sources)} modules, {len(changed)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
