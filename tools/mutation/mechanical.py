"""Mutants that nobody designed: small changes of a file's syntax tree, drawn by a seed.

Each mutant changes one place: a comparison's bound, `and` into `or`, a condition into its opposite, a number by one,
`min` into `max`, `True` into `False`, or a statement into none. What only speaks (docstrings, texts, log lines) or
only describes (annotations, `__slots__`, imports) is left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from tools.mutation.source import PACKAGE

_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_SUMS: dict[type[ast.operator], tuple[str, str]] = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}
_OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LOGGERS = ("logger", "logging", "warnings")


class Mutant(NamedTuple):
    """In `file` (below src/ottla) the text from `begin` to `end` becomes `becomes`; `line` counts from 1."""

    file: str
    line: int
    kind: str
    begin: int
    end: int
    becomes: str

    def apply(self, text: str) -> str:
        """The file's text, changed."""
        return text[: self.begin] + self.becomes + text[self.end :]

    def told(self, text: str) -> str:
        """The changed line, before and after."""
        before = _line_at(text, self.begin)
        after = _line_at(self.apply(text), self.begin)
        return f"{self.file}:{self.line} {self.kind}: {before} -> {after}"


def _line_at(text: str, position: int) -> str:
    return text[text.rfind("\n", 0, position) + 1 : text.find("\n", position)].strip()


def draw(files: list[str], count: int, seed: int, package: Path = PACKAGE) -> list[Mutant]:
    """`count` mutants of each file, fewer where there are not so many, by the seed; in the order of the text."""
    chance = Random(seed)
    drawn: list[Mutant] = []
    for file in files:
        found = list(mutants(file, (package / file).read_text()))
        drawn += sorted(chance.sample(found, min(count, len(found))), key=lambda each: each.begin)
    return drawn


def mutants(file: str, text: str) -> Iterator[Mutant]:
    """All mutants of a file, each of which is Python and another program."""
    tree = ast.parse(text)
    finder = _Finder(text)
    finder.visit(tree)
    unchanged = ast.dump(tree)
    for begin, end, becomes, kind in finder.found:
        mutant = Mutant(file, text.count("\n", 0, begin) + 1, kind, begin, end, becomes)
        try:
            changed = ast.parse(mutant.apply(text))
        except SyntaxError:
            continue
        if ast.dump(changed) != unchanged:
            yield mutant


class _Finder(ast.NodeVisitor):
    """Collects (begin, end, what stands there instead, kind) of every place that can be changed."""

    def __init__(self, text: str) -> None:
        self.found: list[tuple[int, int, str, str]] = []
        self._text = text
        self._is_ascii = text.isascii()
        self._lines = [0]
        for line in text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def _position(self, line: int, column: int) -> int:
        """Where a node begins or ends; its column counts bytes."""
        begin = self._lines[line - 1]
        if self._is_ascii:
            return begin + column
        whole = self._text[begin : self._lines[line]]
        return begin + len(whole.encode()[:column].decode())

    def _begin(self, node: ast.expr | ast.stmt) -> int:
        return self._position(node.lineno, node.col_offset)

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._position(node.end_lineno, node.end_col_offset)

    def _add(self, begin: int, end: int, becomes: str, kind: str) -> None:
        self.found.append((begin, end, becomes, kind))

    def _add_between(self, left: ast.expr, right: ast.expr, old: str, new: str, kind: str) -> None:
        """Change the operator, which stands alone between its operands but for brackets and line ends."""
        begin, end = self._end(left), self._begin(right)
        at = self._text.find(old, begin, end)
        if at >= 0:
            self._add(at, at + len(old), new, kind)

    # What is left alone.

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Texts."""

    def visit_Import(self, node: ast.Import) -> None:
        """Imports."""

    visit_ImportFrom = visit_Import  # type: ignore[assignment]  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """The annotation describes; the value does not."""
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Layouts describe."""
        if not any(isinstance(each, ast.Name) and each.id.startswith("__") for each in node.targets):
            if any(isinstance(each, ast.Attribute | ast.Subscript) for each in node.targets):
                self._remove(node)
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Not the annotations and the decorators."""
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        for each in node.body:
            self.visit(each)

    # What is changed.

    def visit_Compare(self, node: ast.Compare) -> None:
        """A bound, or what is asked."""
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            old, new = _COMPARISONS[type(operator)]
            self._add_between(left, right, old, new, "comparison")
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """`and`, `or`."""
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._add_between(left, right, old, new, "and/or")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Sums."""
        if type(node.op) in _SUMS:
            self._add_between(node.left, node.right, *_SUMS[type(node.op)], "sum")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """`not`."""
        if isinstance(node.op, ast.Not):
            self._add(self._begin(node), self._begin(node.operand), "", "not")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Numbers, `True`, `False`."""
        if isinstance(node.value, bool):
            self._add(self._begin(node), self._end(node), str(not node.value), "constant")
        elif isinstance(node.value, int):
            for other in (node.value - 1, node.value + 1):
                self._add(self._begin(node), self._end(node), f"({other})" if other < 0 else str(other), "constant")

    def visit_Call(self, node: ast.Call) -> None:
        """`min`, `max`, `any`, `all`; nothing of what is logged."""
        function = node.func
        if isinstance(function, ast.Name) and function.id in _OPPOSITES:
            self._add(self._begin(function), self._end(function), _OPPOSITES[function.id], "call")
        if not _is_logging(node):
            self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        """The condition's opposite; what is there for type checkers alone is never run."""
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        """The condition stays a bound: its opposite loops for ever."""
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """The condition's opposite."""
        self._negate(node.test)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Counted the other way, or not at all."""
        if type(node.op) in _SUMS:
            old, new = _SUMS[type(node.op)]
            self._add_between(node.target, node.value, f"{old}=", f"{new}=", "sum")
        self._remove(node)
        self.visit(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        """A call that is not made; docstrings stay."""
        if isinstance(node.value, ast.Call) and not _is_logging(node.value):
            self._remove(node)
            self.visit(node.value)

    def visit_Return(self, node: ast.Return) -> None:
        """A way out that is not taken, where there is no value to be had."""
        if node.value is None:
            self._remove(node)
        else:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """An error that is not raised."""
        self._remove(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        """Something that is kept."""
        self._remove(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        """A way round that is not taken."""
        self._remove(node)

    visit_Break = visit_Continue  # type: ignore[assignment]  # noqa: N815

    def visit_Assert(self, node: ast.Assert) -> None:
        """What is asserted is for type checkers."""

    def _negate(self, test: ast.expr) -> None:
        if not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            begin, end = self._begin(test), self._end(test)
            self._add(begin, end, f"not ({self._text[begin:end]})", "condition")

    def _remove(self, node: ast.stmt) -> None:
        self._add(self._begin(node), self._end(node), "pass", "statement")


def _is_logging(node: ast.Call) -> bool:
    function = node.func
    return (
        isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id in _LOGGERS
    )
