"""What a client in a process of its own may do wrong, each told by a sentence with its place.

The clients here are short programs that know no Kafka: they say what they are written to say.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.cli.signals import Ended, ending_in_order
from ottla.errors import OttlaError, UserMistake
from ottla.ledger.schema import ACKED, FAILED, UNKNOWN
from ottla.trial.fault_schedule import FaultSchedule
from ottla.trial.ledger import SideLedger
from ottla.trial.other_client import send_all
from ottla.trial.process_sender import ProcessSender
from ottla.trial.scenario import Scenario, Side
from ottla.trial.sender import ClientEnded, SendingOrder

from ..interrupting import ended_by_a_signal_that_wakes_nobody

# Reads and tells; `say` prints a line, `acked` is the line about a record, `lines` all that follows the first one.
HEAD = """
import json, os, signal, sys
say = lambda text: print(text, flush=True)
acked = lambda given, offset=5: json.dumps(
    {"number": given["number"], "outcome": "acked", "partition": given["partition"], "offset": offset})
start = json.loads(sys.stdin.readline())
lines = map(json.loads, sys.stdin)
hello = lambda **more: say(json.dumps({"client": "mine", "version": "7", **more}))
"""
SHORT_S = 0.4


class Trial:
    """Hands records to one client and keeps what came of them."""

    def __init__(self, folder: Path) -> None:
        self._program = folder / "client.py"
        self.ledger = SideLedger()
        self.sent = 0

    def open(self, program: str, settings: dict[str, Any] | None = None, **patience: float) -> ProcessSender:
        self._program.write_text(HEAD + program)
        given = {"acks": "all", "linger.ms": 0, "delivery.timeout.ms": 5000, **(settings or {})}
        order = SendingOrder("127.0.0.1:1", "trial", given, frozenset({"acks"}), "side")
        return ProcessSender([sys.executable, "-I", "-S", str(self._program)], order, self.ledger, **patience)

    def opened(self, program: str) -> tuple[ProcessSender, Scenario, Side, SideLedger, FaultSchedule]:
        """What `send_all` takes, for three records and no faults; `assert_abandoned` asks for the sender."""
        side = Side("side", "at-least-once", {}, {})
        scenario = Scenario(
            "t", "t", "t", (side,), (), records=3, value_bytes=5, partitions=1, brokers=1, flush_every=0
        )
        self._sender = self.open(program)
        return (
            self._sender,
            scenario,
            side,
            self.ledger,
            FaultSchedule(cast(Any, SimpleNamespace(check=lambda: None)), ()),
        )

    def assert_abandoned(self) -> None:
        """The process has ended, and nothing was waited for that it might have told."""
        assert not self._sender.takes_records
        assert self._sender.problems == ()

    def send(self, sender: ProcessSender, count: int, *, value: bytes = b"value") -> None:
        """As many as it takes."""
        for _ in range(count):
            number = len(self.ledger.outcome)
            self.ledger.hand_over(number, 0, b"key", value)
            sender.hand_over(number, 0, b"key", value, [("ottla.sequence", b"\0")])

    def run(self, program: str, count: int = 3, settings: dict[str, Any] | None = None, **patience: float) -> Any:
        """The client's problems when all is over."""
        sender = self.open(program, settings, **patience)
        try:
            if sender.takes_records:
                self.send(sender, count)
                sender.flush()
        except ClientEnded:
            pass
        finally:
            sender.close()
        return sender.problems


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path)


def test_a_client_may_choose_the_partition_of_a_record_that_has_none(trial: Trial) -> None:
    sender = trial.open(
        """
hello()
for given in lines:
    if "number" in given:
        assert given["partition"] is None and given["key"] is None
        say(acked({**given, "partition": 7}, 3))
"""
    )
    trial.ledger.hand_over(0, None, None, b"value")
    assert trial.ledger.without_partition == 1
    sender.hand_over(0, None, None, b"value", [])
    sender.flush()
    sender.close()
    assert sender.problems == ()
    assert (trial.ledger.partition, trial.ledger.offset, trial.ledger.without_partition) == ([7], [3], 0)


GOOD = """
hello()
offset = 10
for given in lines:
    if "number" in given:
        say(acked(given, offset))
        offset += 1
"""


def test_what_a_client_tells_is_in_the_ledger(trial: Trial) -> None:
    program = """
import base64
hello(version="7.1")
assert start["protocol"] == 1 and start["topic"] == "trial" and start["settings"]["acks"] == "all"
assert start["bootstrap.servers"] == "127.0.0.1:1"
for given in lines:
    if given.get("flush"):
        continue
    assert base64.b64decode(given["key"]) == b"key" and base64.b64decode(given["value"]) == b"value"
    assert given["headers"] == [["ottla.sequence", "AA=="]], given
    if given["number"] == 0:
        say(acked(given, 17))
    elif given["number"] == 1:
        say('{"number": 1, "outcome": "failed", "error": "too large"}')
    else:
        say('{"number": 2, "outcome": "unknown", "error": "timed out", "more": "is passed over"}')
"""
    assert trial.run(program) == ()
    assert trial.ledger.outcome == [ACKED, FAILED, UNKNOWN]
    assert trial.ledger.partition == [0, 0, 0]
    assert trial.ledger.offset == [17, -1, -1]
    assert trial.ledger.errors == {"too large": 1, "timed out": 1}


def test_a_client_names_itself_and_the_settings_that_it_does_not_have(trial: Trial) -> None:
    sender = trial.open(GOOD.replace("hello()", 'hello(without=["linger.ms"])'))
    sender.close()
    assert (sender.client, sender.without, sender.impossible) == ("mine 7", ("linger.ms",), None)
    assert sender.problems == ()


def test_a_setting_that_the_side_gives_and_the_client_does_not_have_makes_it_impossible(trial: Trial) -> None:
    sender = trial.open(GOOD.replace("hello()", 'hello(without=["acks", "linger.ms"])'))
    assert not sender.takes_records
    sender.close()
    assert sender.impossible == "it cannot be given acks=all"
    assert sender.problems == ()


def test_a_client_may_say_itself_why_it_cannot(trial: Trial) -> None:
    sender = trial.open('hello(impossible="acks must be 1 here")')
    sender.close()
    assert (sender.impossible, sender.problems) == ("acks must be 1 here", ())


def test_a_record_without_acks_is_unknown_whatever_the_client_says(trial: Trial) -> None:
    assert trial.run(GOOD.replace("acked(given, offset)", "acked(given, None)"), settings={"acks": 0}) == ()
    assert trial.ledger.outcome == [UNKNOWN] * 3
    assert trial.ledger.errors == {}


UNTOLD_1 = "the client told no outcome of 1 of 3 records; the first of them is record 2"
# This client ends at a flush, so that nobody waits for outcomes that it does not tell.
NOT_FLUSHING = GOOD.replace("lines:", "lines:\n    if given.get('flush'): break")


@pytest.mark.parametrize(
    ("program", "problems"),
    [
        (
            'hello(); say(acked(next(lines))); say(acked(next(lines))); say("oh, no"); next(lines); next(lines)',
            ["line 4 of the client is not JSON: 'oh, no'", "the client ended with exit status 0 while", UNTOLD_1],
        ),
        (
            NOT_FLUSHING.replace("acked(given, offset)", "acked(given).replace('acked', 'great')"),
            ["line 2 of the client tells 'great' of record 0; an outcome is one of acked, failed, unknown"],
        ),
        (
            GOOD + '    else: say(\'{"number": 0, "outcome": "failed"}\')',
            ["line 5 of the client tells record 0 failed; line 2 has told it acked already"],
        ),
        (
            GOOD + '    else: say(\'{"number": 9, "outcome": "failed"}\')',
            ["line 5 of the client tells of record 9, which was not handed over"],
        ),
        (
            NOT_FLUSHING.replace("acked(given, offset)", "acked({**given, 'partition': 4})"),
            ["line 2 of the client tells record 0 acked in partition 4; it was to go to partition 0"],
        ),
        (
            NOT_FLUSHING.replace("acked(given, offset)", "acked({**given, 'partition': None})"),
            ["line 2 of the client tells record 0 acked and does not say in which partition"],
        ),
        (
            NOT_FLUSHING.replace("acked(given, offset)", "acked(given, None)"),
            ["line 2 of the client tells record 0 acked and does not say at which offset"],
        ),
        (
            NOT_FLUSHING.replace("acked(given, offset)", "acked(given, 'ten')"),
            ["line 2 of the client tells offset 'ten' of record 0, which must be an integer"],
        ),
        (
            NOT_FLUSHING.replace("say(acked(given, offset))", "say('[]')"),
            ["line 2 of the client is not a JSON object: '[]'"],
        ),
        (GOOD.replace("hello()", 'say("ready")') + "\n", ["line 1 of the client is not JSON: 'ready'"]),
        (
            GOOD.replace("hello()", "say('{\"name\": 1}')"),
            ['line 1 of the client must be {"client": its name, "version": its version} and is \'{"name": 1}\''],
        ),
    ],
)
def test_a_line_that_cannot_be_used_is_told_with_its_number(trial: Trial, program: str, problems: list[str]) -> None:
    told = trial.run(program)
    for wanted in problems:
        assert any(each.startswith(wanted) for each in told), told


def test_many_wrong_lines_are_counted_and_the_first_are_told(trial: Trial) -> None:
    told = trial.run(GOOD + "    else: [say('x') for _ in range(8)]")
    assert told == (*(f"line {line} of the client is not JSON: 'x'" for line in range(5, 10)), told[-1])
    assert told[-1] == "3 more lines of the client cannot be used"
    assert trial.ledger.outcome == [ACKED] * 3


def test_a_client_that_says_nonsense_without_end_is_ended(trial: Trial) -> None:
    told = trial.run("hello()\nwhile True: say('x')")
    assert "1,000 lines of the client cannot be used, so it was ended" in told


def test_a_line_without_end_is_not_kept(trial: Trial) -> None:
    told = trial.run("hello()\nwhile True: sys.stdout.write('x' * 10000)")
    assert told[0] == "line 2 of the client is longer than 1,048,576 bytes"


def test_a_line_that_is_too_long_is_not_taken_although_it_ends(trial: Trial) -> None:
    sender = trial.open('hello()\nsay(json.dumps({"number": 0, "outcome": "unknown", "error": "x" * (1 << 20)}))')
    trial.send(sender, 1)
    with pytest.raises(ClientEnded):
        sender.flush()
    assert sender.problems == ("line 2 of the client is longer than 1,048,576 bytes",)


def test_what_a_killed_client_did_not_tell_is_unknown(trial: Trial) -> None:
    program = """
hello()
say(acked(next(lines)))
sys.stdout.write('{"number": 1, "outc')
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert trial.run(program) == (
        'the last line of the client, line 3, ends in the middle: \'{"number": 1, "outc\'',
        "the client was killed by SIGKILL while there was more for it to do",
        *trial_untold(trial, 1),
    )
    assert trial.ledger.outcome[0] == ACKED
    assert set(trial.ledger.outcome[1:]) == {UNKNOWN}
    # Where they may be stored, so that what is stored of them is theirs.
    assert set(trial.ledger.partition) == {0}


def trial_untold(trial: Trial, first: int) -> list[str]:
    """How many records it was given before it was found dead depends on the moment."""
    count = len(trial.ledger.outcome)
    return [f"the client told no outcome of {count - first} of {count} records; the first of them is record {first}"]


def test_a_last_line_that_is_whole_counts_without_its_end(trial: Trial) -> None:
    program = (
        "hello()\nfor given in lines:\n    'number' in given and say(acked(given))\n    if given.get('flush'): break\n"
    )
    program = program.replace("say(acked(given))", "sys.stdout.write((given['number'] and '\\n' or '') + acked(given))")
    told = trial.run(program)
    assert trial.ledger.outcome == [ACKED] * 3
    assert told == ()


def test_a_client_that_fails_says_why_on_its_stderr(trial: Trial) -> None:
    told = trial.run("hello()\nsys.stdin.readline()\nsys.exit('no brokers: all refused')")
    assert told[0] == "the client ended with exit status 1 while there was more for it to do: no brokers: all refused"


def test_what_a_terminal_obeys_is_spelled_out(trial: Trial) -> None:
    red = r"'\x1b[31m'"
    sender = trial.open(
        f"say(json.dumps(dict(client={red}, without=[{red}], impossible={red})))\nsys.stderr.write({red})\nsys.exit(3)"
    )
    sender.close()
    assert (sender.client, sender.without, sender.impossible) == (r"\x1b[31m", (r"\x1b[31m",), r"\x1b[31m")
    assert all(each.isprintable() for each in sender.problems)


def test_a_client_that_ends_before_it_says_who_it_is_gets_no_record(trial: Trial) -> None:
    assert trial.run("import nothing_like_it") == (
        "the client ended with exit status 1 before it said who it is: "
        "ModuleNotFoundError: No module named 'nothing_like_it'",
    )
    assert trial.ledger.outcome == []


def test_of_node_the_error_is_told_and_not_its_version(trial: Trial) -> None:
    """Word for word what Node.js 20 prints for a file that is not there."""
    said = """node:internal/modules/cjs/loader:1210
  throw err;
  ^

Error: Cannot find module '/home/ada/my-client.js'
    at Module._load (node:internal/modules/cjs/loader:1038:27)
    at node:internal/main/run_main_module:28:49 {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v20.20.2
"""
    assert trial.run(f"sys.stderr.write({said!r})\nsys.exit(1)") == (
        "the client ended with exit status 1 before it said who it is: "
        "Error: Cannot find module '/home/ada/my-client.js'",
    )


def test_a_client_that_never_says_who_it_is_is_ended(trial: Trial) -> None:
    told = trial.run("sys.stdin.read()", start_s=SHORT_S)
    assert told == ("the client said nothing within 0.4 s of its start",)


def test_a_client_that_never_tells_is_ended_and_its_records_are_unknown(trial: Trial) -> None:
    assert trial.run("hello()\nfor given in lines: pass", patience_s=SHORT_S) == (
        "the client took no record and told no outcome for 0.4 s, so it was ended",
        "the client told no outcome of 3 of 3 records; the first of them is record 0",
    )
    assert trial.ledger.outcome == [UNKNOWN] * 3


def test_a_client_that_takes_nothing_is_ended(trial: Trial) -> None:
    sender = trial.open("hello()\nsignal.pause()", patience_s=SHORT_S)
    with pytest.raises(ClientEnded):
        trial.send(sender, 1000, value=bytes(1000))
    sender.close()
    assert sender.problems[0].startswith("the client took no record and told no outcome for 0.4 s")


def test_a_slow_client_is_waited_for_however_much_there_is(trial: Trial) -> None:
    """Both pipes fill up: it reads nothing while it writes, and nobody waits for the other forever."""
    program = """
hello()
for given in lines:
    if "number" in given:
        say(json.dumps({**json.loads(acked(given)), "error": "x" * 2000}))
"""
    sender = trial.open(program)
    trial.send(sender, 500, value=bytes(2000))
    sender.close()
    assert sender.problems == ()
    assert trial.ledger.outcome == [ACKED] * 500


def test_a_client_that_ends_without_telling_all_leaves_a_gap(trial: Trial) -> None:
    sender = trial.open(GOOD.replace('if "number" in given', 'if given.get("number") not in (None, 1)'))
    trial.send(sender, 3)
    sender.close()
    assert sender.problems == ("the client told no outcome of 1 of 3 records; the first of them is record 1",)
    assert trial.ledger.outcome == [ACKED, UNKNOWN, ACKED]


def test_a_client_that_does_not_end_well_is_told(trial: Trial) -> None:
    told = trial.run(GOOD + "\nsys.exit('could not close')")
    assert told == ("the client ended with exit status 1 at its end: could not close",)


def test_nothing_is_left_of_a_client_that_has_children(trial: Trial, tmp_path: Path) -> None:
    held = tmp_path / "held"
    os.mkfifo(held)
    reading = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    program = f"""
import subprocess
with open({str(held)!r}, "w") as out:
    subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], stdout=out)
{GOOD}
"""
    assert trial.run(program) == ()
    # Its end comes when the last process that could write there has ended.
    os.set_blocking(reading, True)
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_ctrl_c_ends_a_client_at_once(trial: Trial) -> None:
    """As the shell would, it sends the signal to whoever waits for it; then it tells nothing, and takes nothing."""
    program = "hello()\nnext(lines)\nnext(lines)\nos.kill(os.getppid(), signal.SIGINT)\nsignal.pause()"
    with pytest.raises(KeyboardInterrupt):
        send_all(*trial.opened(program), lambda: None)
    trial.assert_abandoned()


@pytest.mark.parametrize("ending", [KeyboardInterrupt(), Ended(signal.SIGTERM), OttlaError("too few replicas")])
def test_a_trial_that_ends_between_two_records_does_not_wait_for_its_client(
    trial: Trial, ending: BaseException
) -> None:
    def end() -> None:
        raise ending

    with pytest.raises(type(ending)):
        send_all(*trial.opened("hello()\nsignal.pause()"), end)
    trial.assert_abandoned()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_of_a_client_whose_first_line_nobody_waits_for_any_more(
    trial: Trial, tmp_path: Path, number: signal.Signals
) -> None:
    noted = tmp_path / "pid"
    program = f"""
open({str(noted)!r}, "w").write(str(os.getpid()))
os.kill(os.getppid(), {int(number)})
signal.pause()
"""
    with pytest.raises((KeyboardInterrupt, Ended)), ending_in_order():
        trial.open(program)
    with pytest.raises(ProcessLookupError):
        os.kill(int(noted.read_text()), 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_of_a_client_where_a_signal_comes_just_when_it_is_started(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    start = subprocess._fork_exec  # type: ignore[attr-defined]
    started: list[int] = []

    def start_and_tell(*given: object) -> int:
        started.append(start(*given))
        signal.raise_signal(number)
        return started[0]

    monkeypatch.setattr(subprocess, "_fork_exec", start_and_tell)
    with pytest.raises((KeyboardInterrupt, Ended)), ending_in_order():
        trial.open("signal.pause()")
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


def test_a_client_is_not_waited_for_after_a_signal_that_woke_nobody(trial: Trial) -> None:
    sender = trial.open("hello()\nnext(lines)\nsignal.pause()", patience_s=120)
    trial.send(sender, 1)
    try:
        assert ended_by_a_signal_that_wakes_nobody(sender.flush)
    finally:
        sender.abandon()


def test_a_client_that_writes_to_its_stderr_without_end_is_ended(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    passed_s = 0.0

    class MinuteLater(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            nonlocal passed_s
            passed_s += 60.0

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + passed_s)
    monkeypatch.setattr("ottla.trial.process_sender.time", clock)
    logger, later = logging.getLogger("ottla.trial"), MinuteLater()
    logger.addHandler(later)
    try:
        order = SendingOrder("127.0.0.1:1", "trial", {}, frozenset(), "side")
        sender = ProcessSender(["sh", "-c", f"yes {500 * '.'} >&2; :"], order, trial.ledger, start_s=60)
    finally:
        logger.removeHandler(later)
    sender.close()
    assert sender.problems == (f"the client said nothing within 60 s of its start: {500 * '.'}",)


def test_a_program_that_is_not_there_is_told() -> None:
    order = SendingOrder("127.0.0.1:1", "trial", {}, frozenset(), "side")
    with pytest.raises(UserMistake, match="the client cannot be started: no-such-program: No such file or directory"):
        ProcessSender(["no-such-program"], order, SideLedger())
