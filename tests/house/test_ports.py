"""`tools.ports`: two servers of a test run are never given one port, whichever processes start them."""

from __future__ import annotations

import subprocess
import sys

_DRAWS, _EACH = 40, 30
_ASK = f"""
from tools.ports import free_ports
print(*(port for _ in range({_DRAWS}) for port in free_ports({_EACH})), flush=True)
input()
"""


def test_no_port_is_given_twice_while_its_process_lives() -> None:
    asking = [
        subprocess.Popen([sys.executable, "-c", _ASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        lines = [process.stdout.readline() for process in asking if process.stdout is not None]
    finally:
        for process in asking:
            process.communicate("\n")
    given = [int(port) for line in lines for port in line.split()]
    assert len(given) == 2 * _DRAWS * _EACH
    assert len(set(given)) == len(given)
