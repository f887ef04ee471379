"""Writes docs/faults.md out of the classes of faults.

python tools/generate_faults.py            # write the page
python tools/generate_faults.py --check    # exit 1 where the page is not what would be written
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from ottla.broker.apis import VERSIONS  # noqa: E402
from ottla.faults.fault import AFTER_APPEND, BEFORE_APPEND, KINDS, OF_BROKERS, OF_REQUESTS, fault_class  # noqa: E402
from ottla.faults.fields import Field  # noqa: E402
from ottla.faults.request_fault import WHICH  # noqa: E402
from ottla.protocol.messages import MODULES  # noqa: E402

PAGE = ROOT / "docs" / "faults.md"

INTRODUCTION = """\
# Faults

A fault is something that goes wrong on purpose. The faults have the same names and fields in an embedded cluster
(`cluster.faults`, `ottla cluster fault`), in trials (`ottla trial`) and in the simulation (`ottla simulate`). A
[proxy](proxy.md) in front of any Kafka has those that apply to requests, and `unplug` and `half_open`. This page is
written by `tools/generate_faults.py` from `src/ottla/faults/`; changes belong there.

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

A fault is in force from the call until `heal()`, or until the end of its `with` block. Then the brokers that it killed,
paused or stopped run again, even if another fault has ended them meanwhile. A fault that would end or freeze a broker
at once is refused if that broker is down already. A fault that is over cannot be used again: make a new one.

`fired` counts how often a fault really fired. Assert it: if the fault never fired, the test has tested nothing.

*Silent* means that a connection stays open and nothing arrives on it any more.

"""

OF_WHICH = """\
## Which requests

Faults that apply to requests take these fields, all optional. A request that fits `api`, `topic`, `partition` and
`broker_id` matches. Without `nth`, `every` and `probability` the fault fires for every request that matches. Requests
are counted over the whole cluster; a retry is one more request. `matched` counts the requests that matched.

Only one fault fires for a request, even if several match it: one that fires before the append goes first, then the
one that was made first. The others count the request in `matched`, and not in `fired`. There is one exception: a
request that was held with `hold(moment="request")` goes on when it is released, and then a fault that fires after the
append can fire for it, such as `lose_ack` or a second `hold(moment="ack")`.

"""

HOLD = """\
`await_reached()` returns once `hold` holds a request or an answer, and `release()` lets all of them go on and holds
nothing more. Every fault that applies to requests has `await_fired()`, which waits until it has fired.
`await_fired(3, timeout=10)` waits until it has fired 3 times, for 10 seconds at most; the defaults are 1 and 60. If it
has not fired so often by then, the call raises `ottla.OttlaError`. `await_reached` takes the same.

A request that its client has given up stays held, and goes on when it is released, like a request that arrives late.
What the client sends in its place is held, too, and counts once more. If a test is to hold each request once, give the
client a `request.timeout.ms` that is longer than the test.

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

Make the producer outside of the block, as here. If the test fails, the hold then ends first; otherwise the producer is
closed first, and waits up to `delivery.timeout.ms` (two minutes) for an answer that is held. `await_reached` and
`await_fired` block their thread; a coroutine calls them with `await asyncio.to_thread(hold.await_reached)`.

"""

BROKERS = """\
## Brokers that end or freeze

Either a request decides which broker and when: `cluster.faults.kill(nth=3)` kills the broker that handles the third
Produce request, when it has appended the records (`moment="append"`, unless another moment is given). Or it happens at
once: `cluster.faults.kill(moment="now", broker_id=2)` kills broker 2. Without `moment="now"` the same call waits for a
request that broker 2 handles. After a power cut the same bytes are left for the same `seed`.

"""


def rows(kinds: Sequence[str], but: Sequence[Field] = ()) -> Iterator[str]:
    """A table of these kinds, with the fields that not all of them have."""
    yield "| fault | what happens | its own fields |"
    yield "|---|---|---|"
    for kind in kinds:
        found = fault_class(kind)
        wanted = [f"**`{field.name}`**" for field in found.wanted]
        fields = wanted + [f"`{field.name}`" for field in found.optional if field not in but]
        yield f"| `{kind}` | {found.says()} | {', '.join(fields)} |"


def fields(kinds: Sequence[str]) -> Iterator[str]:
    """A table of all fields that these kinds have, each once, with every meaning that it has."""
    yield "| field | meaning | allowed values |"
    yield "|---|---|---|"
    known: dict[str, dict[Field, list[str]]] = {}
    for kind in kinds:
        for field in fault_class(kind).fields().values():
            known.setdefault(field.name, {}).setdefault(field, []).append(kind)
    for name, meanings in known.items():
        if len(meanings) == 1:
            [field] = meanings
            yield f"| `{name}` | {field.says} | {field.may.words} |"
            continue
        # The meaning that most kinds have comes first and is that of all others.
        usual, *special = sorted(meanings, key=lambda field: -len(meanings[field]))
        says, may = [usual.says], [usual.may.words]
        for field in special:
            of = ", ".join(f"`{kind}`" for kind in meanings[field])
            says.append(f"{of}: {field.says}")
            may.append(f"{of}: {field.may.words}")
        yield f"| `{name}` | {'; '.join(says)} | {'; '.join(may)} |"


def apis() -> str:
    """What `api` can be: the requests that brokers answer."""
    names = ", ".join(f"`{name}`" for name in sorted(MODULES[api_key][1] for api_key in VERSIONS))
    return textwrap.fill(f"`api` is one of {names}.", width=120, break_on_hyphens=False)


def page() -> str:
    """The page's whole text."""
    others = [kind for kind in KINDS if kind not in (*OF_REQUESTS, *OF_BROKERS)]
    parts = [
        INTRODUCTION,
        "## Before the append\n\nNothing is stored.\n\n",
        "\n".join(rows(BEFORE_APPEND, WHICH)),
        "\n\n## After the append\n\nThe records are stored.\n\n",
        "\n".join(rows(AFTER_APPEND, WHICH)),
        "\n\n## Held until released\n\n",
        "\n".join(rows(["hold"], WHICH)),
        "\n\n",
        HOLD,
        OF_WHICH,
        "\n".join(f"- `{field.name}`: {field.says}" for field in WHICH),
        "\n\n",
        apis(),
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
