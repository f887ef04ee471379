"""What hangs ends, and says where: also while tests are collected, and when all of them are over.

`faulthandler_timeout` (pyproject.toml) has pytest end a process in which a test takes longer, with the fixtures that
begin or end with it. It holds in each worker, too; the first process then names the test. Here the same holds before
the first test and behind the last one, when threads or servers that nobody has ended would keep a process for ever.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Generator

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key


def _guard(config: pytest.Config) -> None:
    has_workers = config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput")
    timeout_s = float(config.getini("faulthandler_timeout") or 0)
    # Whoever has workers waits for them for as long as the tests take, and ends them.
    if timeout_s > 0 and not has_workers and fault_handler_stderr_fd_key in config.stash:
        # A copy: pytest closes its own before the process ends.
        stderr = os.dup(config.stash[fault_handler_stderr_fd_key])
        faulthandler.dump_traceback_later(timeout_s, exit=True, file=stderr)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """From here on to the first test."""
    _guard(config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """From here on to the end of the process."""
    _guard(session.config)
    return (yield)
