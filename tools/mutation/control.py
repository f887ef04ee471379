"""A control: ottla with the source of some modules changed, in a process of its own.

Many modules are compiled and reach into each other's C structs, so one of them alone cannot be replaced by its source.
In a control all of `TURNS` (setup.py) run as the ordinary Python that they are; only `LOOPS` stay compiled, and cannot
be changed. A run leaves the same trace either way. It takes a third longer, which is less than to compile a changed
module again: a control needs a few dozen runs.

A `sitecustomize` in front of the process's path says which modules come from where. So it holds for every Python that
the process starts as well.

`Control.call` has the process call a function and returns what that returned. The function is named by its module, as
pickle does: it is the process's own, and so is all of ottla that it uses.
"""

from __future__ import annotations

import ast
import logging
import os
import pickle
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self, TypeVar

from tools.mutation.source import ROOT

T = TypeVar("T")

# A call that takes so long will never end.
PATIENCE_S = 300.0

_SITECUSTOMIZE = """
import os
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location

CHANGED = {changed!r}
AS_PYTHON = {as_python!r}

class FromSource:
    def find_spec(self, name, path, target=None):
        place = path[0] + "/" + name.rpartition(".")[2] if path else ""
        file = CHANGED.get(name)
        if file is None:
            if name not in AS_PYTHON:
                return None
            file = place + ".py"
        # The modules of a changed package are where they were.
        within = [place] if os.path.isdir(place) else None
        return spec_from_file_location(
            name, file, loader=SourceFileLoader(name, file), submodule_search_locations=within
        )

sys.meta_path.insert(0, FromSource())
"""
_SERVE = "import sys; from tools.mutation.control import serve; serve(int(sys.argv[1]), sys.argv[2], sys.argv[3:])"


class ControlFailed(Exception):
    """A control could not begin, raised something, died, or did not answer in time."""


def module_of(file: str) -> str:
    """The module of a file below src/ottla; the package, where it is an `__init__.py`."""
    return ".".join(("ottla", *Path(file).with_suffix("").parts)).removesuffix(".__init__")


def listed(name: str) -> list[str]:
    """A list of modules in setup.py."""
    for node in ast.parse((ROOT / "setup.py").read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return list(ast.literal_eval(node.value))
    raise LookupError(name)


class Control:
    """A process with a changed ottla: `texts` in place of files below src/ottla. It ends with the `with` block."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        modules = [module_of(file) for file in texts]
        compiled = {*modules} & {*listed("LOOPS")}
        if compiled:
            raise ControlFailed(f"{', '.join(sorted(compiled))}: is of LOOPS in setup.py, and does not run as Python")
        self._folder = tempfile.TemporaryDirectory(prefix="ottla-control-")
        folder = Path(self._folder.name).resolve()
        changed = {module: str(folder / f"{module}.py") for module in modules}
        for module, text in zip(modules, texts.values(), strict=True):
            Path(changed[module]).write_text(text)
        site = _SITECUSTOMIZE.format(changed=changed, as_python={*listed("TURNS")})
        (folder / "sitecustomize.py").write_text(site)
        paths = [str(folder), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        # For programs that are to run with the change as well: `[sys.executable, "-m", "pytest"]`, say.
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        self._connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVE, str(theirs.fileno()), str(folder), *modules],
                cwd=ROOT,
                env=self.environment,
                pass_fds=[theirs.fileno()],
            )
        try:
            self._answer(PATIENCE_S)
        except ControlFailed:
            self.close()
            raise

    def call(self, function: Callable[..., T], *arguments: Any, timeout_s: float = PATIENCE_S) -> T:
        """What the function, which can be imported, returns there; `ControlFailed` where it raises something."""
        try:
            self._connection.send_bytes(pickle.dumps((function, arguments)))
        except OSError:
            raise ControlFailed(self._end()) from None
        answer: T = self._answer(timeout_s)
        return answer

    def _answer(self, timeout_s: float) -> Any:
        try:
            if not self._connection.poll(timeout_s):
                self.close()
                raise ControlFailed(f"no answer after {timeout_s:g} s")
            is_answer, value = pickle.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            raise ControlFailed(self._end()) from None
        if not is_answer:
            raise ControlFailed(value)
        return value

    def _end(self) -> str:
        self.close()
        return f"the process has ended with status {self._process.returncode}"

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def serve(descriptor: int, folder: str, changed: list[str]) -> None:
    """What the process does: call what it is asked to, until nobody asks any more."""
    # Brokers tell of whatever befalls them.
    logging.disable(logging.CRITICAL)
    connection = Connection(descriptor)
    connection.send_bytes(_tried(_check_loaded, folder, changed))
    while True:
        try:
            asked = connection.recv_bytes()
        except (EOFError, OSError):
            return
        connection.send_bytes(_tried(_called, asked))


def _check_loaded(folder: str, changed: list[str]) -> None:
    """That the changed modules are what is loaded, and not those they were made of."""
    for name in changed:
        path = import_module(name).__file__
        assert path is not None
        assert Path(path).is_relative_to(folder), f"{name} was loaded from {path}"


def _called(asked: bytes) -> Any:
    function, arguments = pickle.loads(asked)
    return function(*arguments)


def _tried(what: Callable[..., Any], *arguments: Any) -> bytes:
    try:
        return pickle.dumps((True, what(*arguments)))
    except BaseException:
        return pickle.dumps((False, traceback.format_exc()))
