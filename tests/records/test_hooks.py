"""What the appender calls of its hooks is what the protocols in append.pyi say, and nothing else."""

from __future__ import annotations

import ast
import asyncio
import contextlib
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ottla.records
from ottla.client.coroutine_waits import CoroutineWaits
from ottla.client.thread_waits import ThreadWaits
from ottla.records.append import Appender
from ottla.records.awaiting import MustWait

if TYPE_CHECKING:
    from ottla.records.append import CoroutineHooks, ProducerHooks

    OF_COROUTINES: type[CoroutineHooks] = CoroutineWaits
    OF_THREADS: type[ProducerHooks] = ThreadWaits

STUB = Path(ottla.records.__path__[0], "append.pyi")


def methods(protocol: str) -> set[str]:
    """The names of this protocol's methods, and of those that it derives from."""
    classes = {each.name: each for each in ast.parse(STUB.read_text()).body if isinstance(each, ast.ClassDef)}
    names = set()
    for base in classes[protocol].bases:
        assert isinstance(base, ast.Name)
        if base.id != "Protocol":
            names |= methods(base.id)
    return names | {each.name for each in classes[protocol].body if isinstance(each, ast.FunctionDef)}


def test_the_appender_calls_what_the_protocol_says_and_all_of_it() -> None:
    called: set[str] = set()

    class Exact:
        __slots__ = ()

    def method(name: str) -> Any:
        def call(self: Exact, *given: Any) -> Any:
            called.add(name)
            if name in ("topic_missing", "memory_wanted"):
                raise MustWait(1 if name == "memory_wanted" else 0)
            if name == "send_later":
                return asyncio.sleep(0)
            return {"wait": True, "send_at_once": False}.get(name)

        return call

    for name in methods("CoroutineHooks"):
        setattr(Exact, name, method(name))
    appender = Appender(
        batch_size=1 << 10,
        max_request_size=1 << 20,
        buffer_memory=1 << 14,
        linger_us=0,
        places=True,
        hooks=Exact(),
        landing=deque(),
    )

    async def work() -> None:
        await appender.send_async("unknown", b"x")
        appender.set_topic("known", 2)
        appender.sleeping, appender.wakes_us = True, 1 << 62
        delivery = await appender.send_async("known", b"x", partition=0)
        appender.is_eager, appender.sleeping, appender.wakes_us = True, True, 1 << 62
        await appender.send_async("known", b"x", partition=1)
        for _ in range(20):
            await appender.send_async("known", b"x" * 1000)
        awaited = delivery.__await__()
        next(iter(awaited))
        with contextlib.suppress(TimeoutError):
            delivery.exception(0)

    asyncio.run(work())
    assert called == methods("CoroutineHooks")
