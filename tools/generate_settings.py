"""Writes what follows from the tables of settings: keywords for type checkers, and the reference page.

    python tools/generate_settings.py            # write the files
    python tools/generate_settings.py --check    # exit 1 where a file is not what would be written

Out of `PRODUCER_SETTINGS` and `READER_SETTINGS` come src/ottla/client/producer_settings_keywords.py,
reader_settings_keywords.py beside it, and docs/settings.md. A row whose `takes` names a class of ottla's needs that
class in `SOURCE_OF`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from ottla.connection.setting import GROUPS, INT32_MAX, INT64_MAX, Setting  # noqa: E402
from ottla.connection.settings import CONNECTION_SETTINGS  # noqa: E402
from ottla.producer.settings_table import PRODUCER_SETTINGS  # noqa: E402
from ottla.reader.settings import READER_SETTINGS  # noqa: E402

CLIENT = ROOT / "src" / "ottla" / "client"
PAGE = ROOT / "docs" / "settings.md"

# Where the names come from that a row's `takes` may use.
SOURCE_OF = {
    "Any": "typing",
    "Callable": "collections.abc",
    "Clock": "ottla.clock",
    "ClusterView": "ottla.producer.cluster_view",
    "KeyColumn": "ottla.records.key_column",
    "Mapping": "collections.abc",
    "Metrics": "ottla.producer.figures",
    "OAuthBearerToken": "ottla.connection.oauth_settings",
    "PathLike": "os",
    "Sequence": "collections.abc",
}
# None counts as not given. Numbers and truth values may come as text, as they do from property files.
TAKES = {int: "int | str", float: "float | str", bool: "bool | str", str: "str"}
KIND_NAMES = {int: "whole number", float: "number", bool: "true or false", str: "text"}
LARGEST = {INT32_MAX: "2^31-1", INT64_MAX: "2^63-1"}

INTRODUCTION = """\
# Settings

Every setting of `ottla.Producer`, `ottla.Reader` and `ottla.Admin`. Names, meanings and defaults are those of Apache
Kafka's own clients (4.3); where ottla differs, the sentence says so. Written by `tools/generate_settings.py` from the
tables in `src/ottla`; changes belong there.

As keywords the names have underscores, and type checkers know them; `from_config` takes Kafka's own spelling:

```python
import ottla

producer = ottla.Producer("localhost:9092", linger_ms=20, compression_type="zstd")
producer = ottla.Producer.from_config({"bootstrap.servers": "localhost:9092", "linger.ms": "20"})
```

Times are in milliseconds, sizes in bytes. Numbers, true and false may be given as text. Before anything is connected,
a name that is not in these tables is refused, with the nearest one that is, and so is a value that is out of range.

Settings that contradict each other are treated as in Java:

- *Refused*, with both names, both values and what to do: idempotence that was asked for with `acks` other than all,
  or with `retries=0`; idempotence, asked for or by default, with more than five requests in flight; a
  `transactional.id` without idempotence; a `delivery.timeout.ms` below `linger.ms` + `request.timeout.ms`.
- *Switched off*: idempotence that is on by default, by `acks=0`, `acks=1` or `retries=0`. The logger `ottla.producer`
  says so, and so do `repr(producer)` and the figure `ottla-idempotence-enabled` of `producer.metrics()`.
- *Warned of*: a `buffer.memory` below `batch.size`; a first pause above its maximum (`retry.backoff.ms` above
  `retry.backoff.max.ms`), because all pauses are then the maximum.
"""


def takes(row: Setting) -> str:
    """What the keyword's value may be, in Python's type syntax."""
    if row.takes:
        return row.takes
    if row.kind is str and any(word.isdigit() for word in row.allowed):
        return "int | str"
    return TAKES[row.kind]


def write_keywords(title: str, of_whom: str, table: Sequence[Setting]) -> str:
    """The source of a module with one TypedDict; the layout of its code is left to ruff."""
    rows = [row for group in GROUPS for row in table if row.group == group and row.name != "bootstrap.servers"]
    told = [
        line
        for row in rows
        for line in textwrap.wrap(
            f"{row.keyword}: {row.doc} {describe_default(row)}",
            116,
            initial_indent="    ",
            subsequent_indent="        ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
    fields = [f"    {row.keyword}: {takes(row)} | None" for row in rows]
    sources = {name: module for name, module in SOURCE_OF.items() if re.search(rf"\b{name}\b", "\n".join(fields))}
    sources["TypedDict"] = "typing"
    imports = [
        f"from {module} import {', '.join(sorted(name for name in sources if sources[name] == module))}"
        for module in sorted(set(sources.values()), key=lambda module: (module.startswith("ottla."), module))
    ]
    ours = sum(line.startswith("from ottla.") for line in imports)
    if ours:
        imports.insert(len(imports) - ours, "")
    lines = [
        f'"""The settings of {of_whom} as keywords: what type checkers, editors and `help` show.',
        "",
        "Written by tools/generate_settings.py from the table of settings; changes belong there. Nothing loads this at",
        "run time: what is given is checked against the table itself.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        *imports,
        "",
        "",
        f"class {title}(TypedDict, total=False):",
        '    """Every setting but `bootstrap_servers`; None counts as not given.',
        "",
        *told,
        '    """',
        "",
        *fields,
    ]
    return "\n".join(lines) + "\n"


def describe_default(row: Setting) -> str:
    """ "Default 5; 0 to 9." or as much of it as there is to say."""
    parts = [f"Default {shown(row.default)}" if row.default is not None else "No default"]
    if allowed(row):
        parts.append(allowed(row))
    return "; ".join(parts) + "."


def shown(value: object) -> str:
    """A default as a property file would hold it."""
    if isinstance(value, bool):
        return str(value).lower()
    return LARGEST.get(value, str(value)) if isinstance(value, int) else str(value) or '""'


def allowed(row: Setting) -> str:
    """The range or the words of a row, "" where its type says it all."""
    if row.kind in (int, float) and row.reads is None:
        text = row.range_text()
        for number, name in LARGEST.items():
            text = text.replace(str(number), name)
        return text
    return ", ".join(row.allowed)


def write_page() -> str:
    """docs/settings.md."""
    parts = [INTRODUCTION]
    producers = [row for group in GROUPS for row in PRODUCER_SETTINGS if row.group == group]
    readers = [row for row in READER_SETTINGS if row not in CONNECTION_SETTINGS]
    parts += write_groups("Producer", producers)
    parts.append(
        "## Reader and Admin\n\n"
        "`ottla.Reader` and `ottla.Admin` share one table: the rows above that are marked with *, and these.\n\n"
        + write_table(readers)
    )
    return "\n".join(parts)


def write_groups(title: str, rows: Sequence[Setting]) -> list[str]:
    """One table for each group."""
    parts = [f"## {title}\n"]
    for group in GROUPS:
        chosen = [row for row in rows if row.group == group]
        if chosen:
            parts.append(f"### {group}\n\n{write_table(chosen)}")
    return parts


def write_table(rows: Sequence[Setting]) -> str:
    """The rows as a Markdown table."""
    lines = ["| setting | type | default | allowed | what it does | KIP |", "|---|---|---|---|---|---|"]
    for row in rows:
        star = "*" if row in CONNECTION_SETTINGS else ""
        kind = f"`{takes(row)}`" if row.takes else KIND_NAMES[row.kind]
        default = "" if row.default is None else f"`{shown(row.default)}`"
        kip = "" if row.kip is None else str(row.kip)
        cells = (f"`{row.name}`{star}", kind, default, allowed(row), row.doc, kip)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def formatted(path: Path, source: str) -> str:
    """The source as `ruff format` leaves it."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(path), "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def generate() -> dict[Path, str]:
    """File -> text, for everything this tool writes."""
    modules = {
        CLIENT / "producer_settings_keywords.py": write_keywords(
            "ProducerSettingsKeywords", "`Producer`", PRODUCER_SETTINGS
        ),
        CLIENT / "reader_settings_keywords.py": write_keywords(
            "ReaderSettingsKeywords", "`Reader` and `Admin`", READER_SETTINGS
        ),
    }
    return {**{path: formatted(path, source) for path, source in modules.items()}, PAGE: write_page()}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write keywords and reference page from the tables of settings.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where something would change")
    given = parser.parse_args(arguments)
    files = generate()
    changed = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    if given.check:
        for path in changed:
            print(
                f"{path.relative_to(ROOT)} is not what tools/generate_settings.py would write; run it", file=sys.stderr
            )
        return 1 if changed else 0
    for path in changed:
        path.write_text(files[path])
    print(f"{len(files)} files, {len(changed)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
