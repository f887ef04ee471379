"""Arrow data in memory, imported and exported through Arrow's C data interface, without a library (compiled).

Coming in: `chunks` takes whatever has `__arrow_c_stream__` or `__arrow_c_array__` (tables of pyarrow, polars, pandas,
duckdb) and gives `Chunk`s. Going out: `schema_capsule` and `array_capsule` make what those methods return, for
arrays whose memory some object owns. Neither needs pyarrow, and no value is copied.

Invariants
- What came in is released exactly once, by the object that has it last: when a struct is moved, its source is marked as
  released.
- What goes out has a reference to its owner in the array and in each of its children: a consumer may separate them and
  release them in any order, from any thread.

https://arrow.apache.org/docs/format/CDataInterface.html and its page on the PyCapsule interface.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.pycapsule import PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.ottla.records.arrow_layout import ArrowArray, ArrowArrayStream, ArrowSchema

from ottla.errors import RecordError

# ---------------------------------------------------------------------- coming in


@cython.final
@cython.cclass
class OwnedSchema:
    """Owns an ArrowSchema."""

    def __dealloc__(self):
        if self.c.release != cython.NULL:
            self.c.release(cython.address(self.c))


@cython.final
@cython.cclass
class Chunk:
    """One contiguous piece of Arrow data, held in memory; it can be handed on by `__arrow_c_array__`."""

    def __dealloc__(self):
        if self.c.release != cython.NULL:
            self.c.release(cython.address(self.c))

    def __len__(self) -> int:
        return self.c.length

    def __arrow_c_schema__(self) -> object:
        return schema_capsule(cython.address(self.schema.c), self.schema)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple:
        return self.__arrow_c_schema__(), array_capsule(cython.address(self.c), self)


@cython.final
@cython.cclass
class _Stream:
    """Owns an ArrowArrayStream and reads it chunk by chunk."""

    c = cython.declare(ArrowArrayStream)
    schema = cython.declare(OwnedSchema)

    def __dealloc__(self):
        if self.c.release != cython.NULL:
            self.c.release(cython.address(self.c))

    @cython.cfunc
    def open(self, capsule: object) -> object:
        source: cython.pointer(ArrowArrayStream) = cython.cast(
            cython.pointer(ArrowArrayStream), PyCapsule_GetPointer(capsule, b"arrow_array_stream")
        )
        self.c = source[0]
        source.release = cython.NULL
        self.schema = OwnedSchema()
        status: cython.int
        with cython.nogil:
            status = self.c.get_schema(cython.address(self.c), cython.address(self.schema.c))
        self.check(status)
        return None

    @cython.cfunc
    def read(self) -> Chunk:
        chunk: Chunk = Chunk()
        chunk.schema = self.schema
        status: cython.int
        # The stream may run Python code, or wait for threads that do: it takes the interpreter lock itself.
        with cython.nogil:
            status = self.c.get_next(cython.address(self.c), cython.address(chunk.c))
        self.check(status)
        return chunk

    @cython.cfunc
    def check(self, status: cython.int) -> object:
        if status == 0:
            return None
        words: cython.p_const_char = self.c.get_last_error(cython.address(self.c))
        text = "no reason given" if words == cython.NULL else cython.cast(bytes, words).decode("utf-8", "replace")
        raise OSError(status, f"The Arrow stream cannot be read on: {text}")


def chunks(data: object) -> object:
    """Iterate over Arrow data as `Chunk`s.

    `data` has `__arrow_c_stream__` or `__arrow_c_array__`, or is an iterable of such objects.
    """
    if hasattr(data, "__arrow_c_stream__"):
        _refuse_objects(data)
        stream: _Stream = _Stream()
        stream.open(data.__arrow_c_stream__())
        while True:
            chunk: Chunk = stream.read()
            if chunk.c.release == cython.NULL:
                return
            yield chunk
    elif hasattr(data, "__arrow_c_array__"):
        yield import_array(data)
    elif hasattr(data, "__iter__") and not isinstance(data, (str, bytes, dict)):
        for piece in data:
            if not hasattr(piece, "__arrow_c_stream__") and not hasattr(piece, "__arrow_c_array__"):
                raise _not_arrow(piece)
            yield from chunks(piece)
    else:
        raise _not_arrow(data)


@cython.cfunc
def _refuse_objects(data: object) -> object:
    """RecordError for columns of Python objects in polars: it exports their addresses as bytes."""
    if type(data).__module__.partition(".")[0] != "polars":
        return None
    columns = dict(data.schema) if hasattr(data, "schema") else {data.name: data.dtype}
    for name, dtype in columns.items():
        if str(dtype) == "Object":
            raise RecordError(
                f"Column {name!r} has polars' type Object, whose values are any Python objects: make text or bytes of "
                "them first."
            )
    return None


@cython.cfunc
def _not_arrow(data: object) -> object:
    made = ": polars.DataFrame(...) makes a table of it" if isinstance(data, (dict, list)) else ""
    return RecordError(
        f"The data is Arrow data (a table or record batch of pyarrow, polars, pandas or duckdb, or an iterator of "
        f"record batches), not {type(data).__name__}{made}."
    )


@cython.cfunc
def import_array(data: object) -> Chunk:
    """Take over the array that an object's `__arrow_c_array__` returns."""
    schema_capsule, array_capsule = data.__arrow_c_array__()
    chunk: Chunk = Chunk()
    chunk.schema = OwnedSchema()
    schema: cython.pointer(ArrowSchema) = cython.cast(
        cython.pointer(ArrowSchema), PyCapsule_GetPointer(schema_capsule, b"arrow_schema")
    )
    array: cython.pointer(ArrowArray) = cython.cast(
        cython.pointer(ArrowArray), PyCapsule_GetPointer(array_capsule, b"arrow_array")
    )
    chunk.schema.c = schema[0]
    schema.release = cython.NULL
    chunk.c = array[0]
    array.release = cython.NULL
    return chunk


# ---------------------------------------------------------------------- going out


@cython.cfunc
@cython.exceptval(check=False)
def _free_schema_capsule(capsule: object) -> cython.void:
    if not PyCapsule_IsValid(capsule, b"arrow_schema"):
        return
    schema: cython.pointer(ArrowSchema) = cython.cast(
        cython.pointer(ArrowSchema), PyCapsule_GetPointer(capsule, b"arrow_schema")
    )
    if schema.release != cython.NULL:
        schema.release(schema)
    free(schema)


@cython.cfunc
@cython.exceptval(check=False)
def _free_array_capsule(capsule: object) -> cython.void:
    if not PyCapsule_IsValid(capsule, b"arrow_array"):
        return
    array: cython.pointer(ArrowArray) = cython.cast(
        cython.pointer(ArrowArray), PyCapsule_GetPointer(capsule, b"arrow_array")
    )
    if array.release != cython.NULL:
        array.release(array)
    free(array)


@cython.cfunc
def _zeroed(count: cython.size_t, size: cython.size_t) -> cython.p_void:
    memory: cython.p_void = calloc(count, size)
    if memory == cython.NULL:
        raise MemoryError
    return memory


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _release_schema(schema: cython.pointer(ArrowSchema)) -> cython.void:
    i: int64_t
    for i in range(schema.n_children):
        if schema.children[i].release != cython.NULL:
            schema.children[i].release(schema.children[i])
        free(schema.children[i])
    free(schema.children)
    if schema.dictionary != cython.NULL:
        if schema.dictionary.release != cython.NULL:
            schema.dictionary.release(schema.dictionary)
        free(schema.dictionary)
    with cython.gil:
        Py_DECREF(cython.cast(object, schema.private_data))
    schema.release = cython.NULL


@cython.cfunc
@cython.exceptval(-1)
def _share_schema(
    source: cython.pointer(cython.const[ArrowSchema]), owner: object, target: cython.pointer(ArrowSchema)
) -> cython.int:
    """Make `target` a view of `source`, whose memory lives as long as `owner`."""
    i: int64_t
    target[0] = source[0]
    target.children = cython.NULL
    target.dictionary = cython.NULL
    target.n_children = 0
    Py_INCREF(owner)
    target.private_data = cython.cast(cython.p_void, owner)
    target.release = _release_schema
    try:
        if source.n_children:
            target.children = cython.cast(
                cython.pointer(cython.pointer(ArrowSchema)), _zeroed(source.n_children, cython.sizeof(cython.p_void))
            )
            for i in range(source.n_children):
                target.children[i] = cython.cast(cython.pointer(ArrowSchema), _zeroed(1, cython.sizeof(ArrowSchema)))
                target.n_children = i + 1
                _share_schema(source.children[i], owner, target.children[i])
        if source.dictionary != cython.NULL:
            target.dictionary = cython.cast(cython.pointer(ArrowSchema), _zeroed(1, cython.sizeof(ArrowSchema)))
            _share_schema(source.dictionary, owner, target.dictionary)
    except BaseException:
        _release_schema(target)
        raise
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _release_array(array: cython.pointer(ArrowArray)) -> cython.void:
    i: int64_t
    for i in range(array.n_children):
        if array.children[i].release != cython.NULL:
            array.children[i].release(array.children[i])
        free(array.children[i])
    free(array.children)
    if array.dictionary != cython.NULL:
        if array.dictionary.release != cython.NULL:
            array.dictionary.release(array.dictionary)
        free(array.dictionary)
    with cython.gil:
        Py_DECREF(cython.cast(object, array.private_data))
    array.release = cython.NULL


@cython.cfunc
@cython.exceptval(-1)
def _share_array(
    source: cython.pointer(cython.const[ArrowArray]), owner: object, target: cython.pointer(ArrowArray)
) -> cython.int:
    """Make `target` a view of `source`, whose memory lives as long as `owner`."""
    i: int64_t
    target[0] = source[0]
    target.children = cython.NULL
    target.dictionary = cython.NULL
    target.n_children = 0
    Py_INCREF(owner)
    target.private_data = cython.cast(cython.p_void, owner)
    target.release = _release_array
    try:
        if source.n_children:
            target.children = cython.cast(
                cython.pointer(cython.pointer(ArrowArray)), _zeroed(source.n_children, cython.sizeof(cython.p_void))
            )
            for i in range(source.n_children):
                target.children[i] = cython.cast(cython.pointer(ArrowArray), _zeroed(1, cython.sizeof(ArrowArray)))
                target.n_children = i + 1
                _share_array(source.children[i], owner, target.children[i])
        if source.dictionary != cython.NULL:
            target.dictionary = cython.cast(cython.pointer(ArrowArray), _zeroed(1, cython.sizeof(ArrowArray)))
            _share_array(source.dictionary, owner, target.dictionary)
    except BaseException:
        _release_array(target)
        raise
    return 0


@cython.cfunc
def schema_capsule(source: cython.pointer(cython.const[ArrowSchema]), owner: object) -> object:
    """What `__arrow_c_schema__` returns: a view of `source`, which lives as long as `owner`."""
    schema: cython.pointer(ArrowSchema) = cython.cast(
        cython.pointer(ArrowSchema), _zeroed(1, cython.sizeof(ArrowSchema))
    )
    try:
        _share_schema(source, owner, schema)
    except BaseException:
        free(schema)
        raise
    return PyCapsule_New(schema, b"arrow_schema", _free_schema_capsule)


@cython.cfunc
def array_capsule(source: cython.pointer(cython.const[ArrowArray]), owner: object) -> object:
    """The second half of what `__arrow_c_array__` returns: a view of `source`, which lives as long as `owner`."""
    array: cython.pointer(ArrowArray) = cython.cast(cython.pointer(ArrowArray), _zeroed(1, cython.sizeof(ArrowArray)))
    try:
        _share_array(source, owner, array)
    except BaseException:
        free(array)
        raise
    return PyCapsule_New(array, b"arrow_array", _free_array_capsule)
