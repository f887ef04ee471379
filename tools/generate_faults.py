"""Writes docs/faults.md out of the classes of faults.

python tools/generate_faults.py            # write the page
python tools/generate_faults.py --check    # exit 1 where the page is not what would be written
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from ottla.faults.fault import AFTER_APPEND, BEFORE_APPEND, KINDS, OF_BROKERS, OF_REQUESTS, fault_class  # noqa: E402
from ottla.faults.fields import Field  # noqa: E402
from ottla.faults.request_fault import WHICH  # noqa: E402

PAGE = ROOT / "docs" / "faults.md"

INTRODUCTION = """\
# Faults

What can go wrong on purpose. The same faults, with the same names and fields, strike an embedded cluster
(`cluster.faults`), a simulated one (`ottla simulate`) and stand in plans that were kept. Those that strike requests,
`unplug` and `half_open` strike in front of any Kafka, too ([proxy](proxy.md)). Written by
`tools/generate_faults.py` from `src/ottla/faults/`; changes belong there.

```python
import ottla

with ottla.Cluster(brokers=3) as cluster:
    cluster.create_topic("orders")
    with cluster.faults.lose_ack(topic="orders", nth=3) as fault:
        with ottla.Producer(cluster.bootstrap_servers, linger_ms=0) as producer:
            for number in range(5):
                producer.send("orders", b"order %d" % number).result(30)
        assert fault.fired == 1
    assert ottla.read_table(cluster.bootstrap_servers, "orders").num_rows == 5
```

A fault is in force from its verb until `heal()`, or to the end of its `with`. Then it is over: brokers that it killed,
froze or stopped run again. `fired` tells how often it really struck; a test that never asks does not know whether it
tested anything. A fault that can find nothing to strike (a broker that is down already) is refused.

"""

OF_WHICH = """\
## Which requests

Faults that strike requests take these fields, all optional. Without `nth`, `every` and `probability` every request that
matches is struck. Counting is over the requests that match, of the whole cluster; a retry is one more request.

"""

HOLD = """\
`hold` is a barrier for tests: `await_reached()` returns once it holds a request, or its answer, and `release()` lets
all go on. Every fault that strikes requests has `await_fired()`, which waits until it has struck.

```python
import ottla

with ottla.Cluster(brokers=1) as cluster, ottla.Producer(cluster.bootstrap_servers) as producer:
    cluster.create_topic("orders")
    with cluster.faults.hold(topic="orders", moment="ack") as hold:
        delivery = producer.send("orders", b"order 1")
        hold.await_reached()
        assert not delivery.done()  # stored, and the producer does not know
        hold.release()
        delivery.result(30)
```

"""

BROKERS = """\
## Brokers struck down

By a request at a `moment`, or now: `cluster.faults.kill(nth=3)` kills the broker that handles the third Produce
request, `cluster.faults.kill(moment="now", broker_id=2)` kills broker 2. Power cuts leave the same bytes for the same
`seed`.

"""


def rows(kinds: Sequence[str], but: Sequence[Field] = ()) -> Iterator[str]:
    """A table of these kinds, with the fields that not all of them have."""
    yield "| fault | what happens | fields |"
    yield "|---|---|---|"
    for kind in kinds:
        found = fault_class(kind)
        wanted = [f"**`{field.name}`**" for field in found.wanted]
        fields = wanted + [f"`{field.name}`" for field in found.optional if field not in but]
        yield f"| `{kind}` | {found.says()} | {', '.join(fields)} |"


def fields(kinds: Sequence[str]) -> Iterator[str]:
    """A table of all fields that these kinds have, each once."""
    yield "| field | what it says | what it may be |"
    yield "|---|---|---|"
    known: dict[tuple[str, str], Field] = {}
    for kind in kinds:
        for field in fault_class(kind).fields().values():
            known.setdefault((field.name, field.says), field)
    for field in known.values():
        yield f"| `{field.name}` | {field.says} | {field.may.words} |"


def page() -> str:
    """The page's whole text."""
    others = [kind for kind in KINDS if kind not in (*OF_REQUESTS, *OF_BROKERS)]
    parts = [
        INTRODUCTION,
        "## Before the append\n\nNothing is stored.\n\n",
        "\n".join(rows(BEFORE_APPEND, WHICH)),
        "\n\n## After the append\n\nThe records are stored.\n\n",
        "\n".join(rows(AFTER_APPEND, WHICH)),
        "\n\n## Until it is released\n\n",
        "\n".join(rows(["hold"], WHICH)),
        "\n\n",
        HOLD,
        OF_WHICH,
        "\n".join(f"- `{field.name}`: {field.says}" for field in WHICH),
        "\n\n",
        BROKERS,
        "\n".join(rows(OF_BROKERS, WHICH)),
        "\n\n## Brokers, disks, clocks, links, clients, logs and leaders\n\nFields in bold must be given.\n\n",
        "\n".join(rows(others)),
        "\n\n## Fields\n\n",
        "\n".join(fields(KINDS)),
        "\n",
    ]
    return "".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or check that it is what would be written."""
    parser = argparse.ArgumentParser(description="Write docs/faults.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where the page is another")
    given = parser.parse_args(arguments)
    if given.check:
        if not PAGE.exists() or PAGE.read_text() != page():
            print("docs/faults.md is not what tools/generate_faults.py writes: run it.", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
