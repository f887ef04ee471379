"""The plan of a decoder as C structs (compiled): the columns of a schema, and the steps that read payloads into them.

The columns come from `columns.py`, the steps from `resolution.py`; here they are laid out in memory for `decode.py`.
Neither is changed afterwards, so threads may share them.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.ottla.records.arrow_layout import NULLABLE, ArrowSchema
from cython.cimports.ottla.schemas.avro.building import (
    STORE_BITS,
    STORE_BLOBS,
    STORE_FIELDS,
    STORE_FIXED,
    STORE_LISTS,
    STORE_NOTHING,
    Building,
    Op,
    Step,
    Storage,
)

from ottla.schemas.avro.resolution import is_empty

# In the order of `Op` in building.pxd.
_OPS = {
    name: number
    for number, name in enumerate(
        (
            "null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "enum", "decimal_bytes",
            "decimal_fixed", "int_long", "int_float", "int_double", "long_float", "long_double", "float_double",
            "time", "record", "array", "map", "union", "optional", "member", "constant", "fail", "skip_nothing",
            "skip_bytes", "skip_varint", "skip_sized", "skip_record", "skip_array", "skip_map",
        )
    )
}  # fmt: skip
_WIDTHS = {"i": 4, "l": 8, "f": 4, "g": 8, "tdD": 4, "ttm": 4, "ttu": 8}


@cython.final
@cython.cclass
class Layout:
    """The columns of a schema: their state before a decoding, and their exported Arrow schemas."""

    def __dealloc__(self):
        free(self.columns)
        free(self.schemas)
        free(self._pointers)

    def __init__(self, root: object) -> None:
        level: list = [root]
        for column in level:
            level.extend(column.children)
        self.count = len(level)
        self.columns = cython.cast(cython.pointer(Building), zeroed(self.count, cython.sizeof(Building)))
        self.schemas = cython.cast(cython.pointer(ArrowSchema), zeroed(self.count, cython.sizeof(ArrowSchema)))
        self._pointers = cython.cast(
            cython.pointer(cython.pointer(ArrowSchema)), zeroed(self.count, cython.sizeof(cython.p_void))
        )
        self._texts = []
        self.numbers = {}
        self.is_row = [True] * self.count
        i: cython.int
        k: cython.int
        next_child: cython.int = 1
        for i in range(self.count):
            column = level[i]
            self.numbers[column] = i
            self._fill(i, column, next_child)
            for k in range(next_child, next_child + len(column.children)):
                self.is_row[k] = self.is_row[i] and column.format == "+s"
            next_child += len(column.children)

    @cython.cfunc
    def _fill(self, i: cython.int, column: object, first_child: cython.int) -> object:
        building: cython.pointer(Building) = cython.address(self.columns[i])
        schema: cython.pointer(ArrowSchema) = cython.address(self.schemas[i])
        kind: str = column.format
        name: bytes = column.name.encode()
        format_: bytes = kind.encode()
        k: cython.int
        self._texts.append(name)
        self._texts.append(format_)
        schema.name = name
        schema.format = format_
        schema.flags = NULLABLE if column.is_nullable else 0
        schema.n_children = len(column.children)
        schema.children = cython.address(self._pointers[first_child])
        for k in range(len(column.children)):
            self._pointers[first_child + k] = cython.address(self.schemas[first_child + k])
        building.is_nullable = column.is_nullable and kind != "n"
        building.first_child = first_child
        building.child_count = len(column.children)
        building.storage = _storage(kind)
        building.width = _width(kind)
        return None


@cython.cfunc
def _storage(kind: str) -> Storage:
    if kind == "n":
        return STORE_NOTHING
    if kind == "b":
        return STORE_BITS
    if kind in ("z", "u"):
        return STORE_BLOBS
    if kind in ("+l", "+m"):
        return STORE_LISTS
    return STORE_FIELDS if kind == "+s" else STORE_FIXED


@cython.cfunc
def _width(kind: str) -> int64_t:
    if kind[:2] == "w:":
        return int(kind[2:])
    if kind[:2] == "d:":
        return 32 if kind.endswith(",256") else 16
    return 8 if kind[:2] == "ts" else _WIDTHS.get(kind, 0)


@cython.cfunc
def zeroed(count: cython.size_t, size: cython.size_t) -> cython.p_void:
    memory: cython.p_void = calloc(count if count else 1, size)
    if memory == cython.NULL:
        raise MemoryError
    return memory


@cython.final
@cython.cclass
class Program:
    """The steps for the payloads of one writer's schema."""

    def __dealloc__(self):
        free(self.steps)
        for pointer in self._pointers or ():
            free(cython.cast(cython.p_void, cython.cast(cython.size_t, pointer)))

    def __init__(self, root: object, layout: Layout) -> None:
        numbers: dict = {root: 0}
        plans: list = [root]
        for plan in plans:
            for child in plan.children:
                if child not in numbers:
                    numbers[child] = len(plans)
                    plans.append(child)
        self.plans = plans
        self._pointers = []
        self._kept = []
        self.steps = cython.cast(cython.pointer(Step), zeroed(len(plans), cython.sizeof(Step)))
        i: cython.int
        for i in range(len(plans)):
            self._fill(cython.address(self.steps[i]), i, plans[i], numbers, layout)

    @cython.cfunc
    def _fill(
        self, step: cython.pointer(Step), number: cython.int, plan: object, numbers: dict, layout: Layout
    ) -> object:
        op: str = plan.op
        k: cython.int
        if plan.column is None and op in ("record", "array", "map"):
            op = f"skip_{op}"
        step.op = cython.cast(Op, cython.cast(cython.int, _OPS[op]))
        step.number = number
        step.column = -1 if plan.column is None else layout.numbers[plan.column]
        step.size = plan.number
        step.child_count = len(plan.children)
        if step.child_count:
            step.children = cython.cast(
                cython.pointer(cython.pointer(Step)), self._memory(step.child_count, cython.sizeof(cython.p_void))
            )
        for k in range(step.child_count):
            step.children[k] = cython.address(self.steps[cython.cast(cython.int, numbers[plan.children[k]])])
        if op in ("array", "skip_array"):
            step.size = 0 if is_empty(plan.children[0]) else 1
        elif op in ("map", "skip_map"):
            step.size = 1
        elif op == "enum":
            self._fill_symbols(step, plan.symbols)
        elif op == "constant":
            self._keep(step, plan.constant)
        elif op in ("decimal_bytes", "decimal_fixed"):
            digits = int(plan.column.format[2:].split(",")[0])
            self._keep(step, (10**digits).to_bytes(layout.columns[step.column].width, "little"))
        return None

    @cython.cfunc
    def _memory(self, count: cython.size_t, size: cython.size_t) -> cython.p_void:
        memory: cython.p_void = zeroed(count, size)
        self._pointers.append(cython.cast(cython.size_t, memory))
        return memory

    @cython.cfunc
    def _keep(self, step: cython.pointer(Step), constant: bytes) -> object:
        self._kept.append(constant)
        step.data = constant
        step.data_bytes = len(constant)
        return None

    @cython.cfunc
    def _fill_symbols(self, step: cython.pointer(Step), symbols: tuple) -> object:
        """Write two numbers for each symbol: where it begins (-1 if the reader has no such symbol), and its length."""
        begin: int64_t = 0
        k: cython.Py_ssize_t
        step.size = len(symbols)
        step.offsets = cython.cast(cython.pointer(int64_t), self._memory(2 * len(symbols), cython.sizeof(int64_t)))
        for k in range(len(symbols)):
            symbol = symbols[k]
            step.offsets[2 * k] = -1 if symbol is None else begin
            step.offsets[2 * k + 1] = 0 if symbol is None else len(symbol)
            begin += 0 if symbol is None else len(symbol)
        self._keep(step, b"".join([symbol for symbol in symbols if symbol is not None]))
        return None
