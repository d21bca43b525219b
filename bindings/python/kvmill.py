"""Python binding of libkvmill: kernels for the key/value cache of language models, on NumPy arrays.

    plan = kvmill.TensorScatter(past, update, write_indices, packs=[kvmill.Pack(path)])
    present = plan.run(past, update, write_indices)         # a new array
    plan.run(past, update, write_indices, present=past)     # in place

    plan = kvmill.MultiHeadCacheAttention(
        num_heads=32, num_kv_heads=8, head_dim=128, T1="float16", quant_bit=8, packs=[pack]
    )
    attn_output = plan.run(
        query=q, current_key=k, current_value=v, start_pos=17, cache=cache, scale=scale
    )

    plan = kvmill.CacheAttend(num_heads=32, num_kv_heads=8, key_head_dim=128, T1="float16")
    attn_output = plan.run(query=q, key=k, value=v, lengths=[17])

    plan = kvmill.Gather(
        table, ids, offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0],
        index_vector_dim=1, slice_sizes=[1, 4096], packs=[pack]
    )
    rows = plan.run(table, ids)

    flow = kvmill.Flow("gqa_quest.json", num_heads=32, num_kv_heads=8, head_dim=128)
    decode = flow.plan("decode", batch=1, pages=2048, packs=[pack])
    attn_output = decode.run(
        query=q, cache=cache, seq_len=[32768], page_indptr=[0, 2048], page_ids=ids, **fields
    )

Plan once, run many: a plan is immutable and may run in any number of threads at a time; the GIL is
released while the library works.  The meaning of the operation is that of kvmill.h.

The library is the file named by the environment variable KVMILL_LIBRARY, else the one that the
system's loader finds.  Importing this module raises OSError when there is none.

Element types go by their ONNX or NumPy names: bool, (u)int8 to (u)int64, float16, float32, float64,
bfloat16, complex64, complex128, the float8 types, int4, uint4, float4e2m1, string.  ml_dtypes is
not needed: only arrays of its types are.  Three layouts deserve a word:

* 4-bit types.  NumPy holds one element per byte, libkvmill two.  Arrays are packed before a run and
  unpacked behind it (pack_nibbles, unpack_nibbles); this costs more than the run itself.  A Gather
  takes them as NumPy holds them.
* Strings are object arrays.  libkvmill moves handles: indices into a table of the objects.
* Raw bits.  With dtype given, arrays of an unsigned integer of the same size are accepted too, for
  4-bit types uint8 with one element per byte.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import weakref
from collections.abc import Collection, Sequence
from concurrent.futures import Executor
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_double,
    c_float,
    c_int64,
    c_void_p,
)
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

import kvmill_c as c
from kvmill_tables import TENSORS, TYPES

__all__ = [
    "Attention",
    "CacheAttend",
    "Call",
    "Flow",
    "FlowStep",
    "Gather",
    "KeyValueCache",
    "KvmillError",
    "MultiHeadAttention",
    "MultiHeadCacheAttention",
    "Pack",
    "Scatter",
    "TensorScatter",
    "TensorScatterAttention",
    "merge_partials",
    "pack_nibbles",
    "unpack_nibbles",
    "version",
]

Shape = tuple[int | None, ...]
Prototype = np.ndarray | Shape
Operand = np.ndarray | Sequence[int] | int | None


def version() -> str:
    """Version of the library in use."""
    return c.library.kvmill_version().decode()


# ---- What the tables say of tensors ----


def _ordered(*ops: str) -> tuple[str, ...]:
    """Names of the tensors of ops that share a list, in its order."""
    indices = {tensor.name: tensor.index for op in ops for tensor in TENSORS[op]}
    return tuple(sorted(indices, key=indices.get))


def _names_of(use: str, *ops: str) -> tuple[str, ...]:
    """Those that are "in", "out" or "inout"."""
    used = {tensor.name for op in ops for tensor in TENSORS[op] if tensor.use == use}
    return tuple(name for name in _ordered(*ops) if name in used)


def _types_of(*ops: str) -> dict[str, str]:
    """Their types: names, or attributes that tell them."""
    return {tensor.name: tensor.type for op in ops for tensor in TENSORS[op]}


# ---- Errors ----


class KvmillError(RuntimeError):
    """The library refused a plan or a run.  Nothing has been written.

    status: number of the kvmill_status; status_name: its name, "KVMILL_E_SHAPE" etc.;
    message: which argument, its value, and what is accepted.
    """

    def __init__(self, status: int, status_name: str, message: str) -> None:
        super().__init__(f"{status_name}: {message}")
        self.status = status
        self.status_name = status_name
        self.message = message


def _check(status: int, error: c.Error) -> None:
    if status != 0:
        name = c.library.kvmill_status_name(status).decode()
        raise KvmillError(status, name, error.message.decode(errors="replace"))


# ---- Element types ----


@dataclass(frozen=True)
class _DType:
    name: str
    code: int
    bits: int

    @property
    def itemsize(self) -> int:
        """Bytes of an element in a NumPy array."""
        return max(self.bits // 8, 1)


_DTYPES = {name: _DType(name, code, bits) for name, (code, bits, _) in TYPES.items()}

# Names of ONNX, NumPy and ml_dtypes for the same types.
_ALIASES = {
    **{alias: name for name, (_, _, alias) in TYPES.items() if alias},
    "object": "string",
    "float8_e4m3fn": "float8e4m3fn",
    "float8_e4m3fnuz": "float8e4m3fnuz",
    "float8_e5m2": "float8e5m2",
    "float8_e5m2fnuz": "float8e5m2fnuz",
    "float8_e8m0fnu": "float8e8m0",
    "float4_e2m1fn": "float4e2m1",
}


def _dtype_named(name: str) -> _DType:
    dtype = _DTYPES.get(_ALIASES.get(name, name))
    if dtype is None:
        raise TypeError(f"element type {name!r}; accepted: {', '.join(_DTYPES)}")
    return dtype


def _dtype_of(array: np.ndarray, declared: _DType | None) -> _DType:
    """Element type of an array: its own, or the declared one for which it holds the raw bits."""
    if not array.dtype.isnative:
        raise TypeError(f"byte order of {array.dtype!r}; accepted: the machine's own")
    if declared and array.dtype.kind == "u" and array.dtype.itemsize == declared.itemsize:
        return declared
    return _dtype_named(array.dtype.name)


# ---- 4-bit elements ----


def pack_nibbles(array: np.ndarray) -> np.ndarray:
    """Pack 4-bit elements, one per byte, two per byte: the first in the low nibble.

    array: any shape, itemsize 1; the high nibble of each byte is ignored.  Returns a new uint8
    array of ceil(array.size / 2) bytes, row-major without gaps; an unused last nibble is 0.
    """
    nibbles = np.zeros(array.size + array.size % 2, np.uint8)
    nibbles[: array.size] = np.ascontiguousarray(array).view(np.uint8).reshape(-1) & 0x0F
    return nibbles[0::2] | nibbles[1::2] << 4


def unpack_nibbles(packed: np.ndarray, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Undo pack_nibbles.  Returns a new array of the shape and the 1-byte dtype, high nibbles 0."""
    nibbles = np.empty(2 * packed.size, np.uint8)
    nibbles[0::2] = packed & 0x0F
    nibbles[1::2] = packed >> 4
    return nibbles[: int(np.prod(shape, dtype=np.int64))].reshape(shape).view(dtype)


# ---- Tensors ----


def _tensor(
    dtype: _DType,
    shape: Sequence[int],
    data: int | None = None,
    strides: Sequence[int] | None = None,
) -> c.DLTensor:
    vector = c_int64 * len(shape)
    return c.DLTensor(
        data=data,
        device=c.DLDevice(c.CPU, 0),
        ndim=len(shape),
        dtype=c.DLDataType(dtype.code, dtype.bits, 1),
        shape=vector(*shape),
        strides=None if strides is None else vector(*strides),
    )


def _strides_of(array: np.ndarray) -> list[int] | None:
    """Strides in elements; None when row-major without gaps."""
    if array.flags.c_contiguous:
        return None
    if any(stride % array.itemsize for stride in array.strides):
        raise ValueError(
            f"strides of {array.strides} bytes; accepted: multiples of the {array.itemsize} "
            "of an element"
        )
    return [stride // array.itemsize for stride in array.strides]


def _array_tensor(array: np.ndarray, declared: _DType | None = None) -> c.DLTensor:
    dtype = _dtype_of(array, declared)
    return _tensor(dtype, array.shape, array.ctypes.data, _strides_of(array))


def _is_staged(array: np.ndarray, dtype: _DType) -> bool:
    """Whether NumPy's layout of the type is not the library's."""
    return dtype.bits == 4 or array.dtype.hasobject


def _prototype_tensor(
    prototype: Prototype, declared: _DType | None, open_dims: Collection[int]
) -> c.DLTensor:
    if isinstance(prototype, tuple):
        if declared is None:
            raise TypeError("a shape was given without dtype; accepted: both, or an array")
        dtype, shape, strides = declared, prototype, None
    else:
        array = np.asarray(prototype)
        dtype, shape = _dtype_of(array, declared), array.shape
        strides = None if _is_staged(array, dtype) else _strides_of(array)
    dims = [c.DYNAMIC if dim is None or d in open_dims else dim for d, dim in enumerate(shape)]
    return _tensor(dtype, dims, strides=strides)


def _reference(tensor: c.DLTensor | None):
    return None if tensor is None else ctypes.pointer(tensor)


# ---- Packs ----


class Pack:
    """A pack of generated kernels: the shared library lib<name>.so that `kvmill generate` built.

    It stays loaded until the process ends.  Raises OSError when the file cannot be loaded,
    ValueError when it is not named like a pack or does not define kvmill_pack_<name>.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        match = re.fullmatch(r"lib(\w+)\.so", Path(path).name)
        if match is None:
            raise ValueError(
                f"pack {os.fspath(path)!r}; accepted: a path of the form .../lib<name>.so"
            )
        self.name = match[1]
        library = ctypes.CDLL(os.fspath(Path(path).resolve()))
        try:
            self._head = c.Pack.in_dll(library, f"kvmill_pack_{self.name}")
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)} is not a pack: {error}") from error

    @property
    def kernel_count(self) -> int:
        """Number of kernels in the pack."""
        return self._head.count


def _plan_options(
    packs: Sequence[Pack], portable: bool, isa: str | None, threads: int = 0
) -> c.PlanOptions:
    pointers = (c_void_p * len(packs))(*(ctypes.addressof(pack._head) for pack in packs))
    return c.PlanOptions(
        struct_size=ctypes.sizeof(c.PlanOptions),
        packs=pointers,
        pack_count=len(packs),
        isa=isa.encode() if isa else None,
        portable=portable,
        threads=threads,
    )


# ---- Plans ----


def _make_plan(owner: object, function: str, *arguments: Structure) -> c_void_p:
    """A plan that lives as long as its owner; the last argument is a c.PlanOptions."""
    error, handle = c.Error(), c_void_p()
    status = getattr(c.library, function)(*map(byref, arguments), byref(handle), byref(error))
    _check(status, error)
    weakref.finalize(owner, c.library.kvmill_plan_destroy, handle)
    return handle


def _describe(handle: c_void_p) -> str:
    size = c.library.kvmill_plan_describe(handle, None, 0) + 1
    text = ctypes.create_string_buffer(size)
    c.library.kvmill_plan_describe(handle, text, size)
    return text.value.decode()


_ALIGNMENT = 64


def _make_workspace(size: int) -> np.ndarray | None:
    """So many bytes, aligned as the library wants them."""
    if size == 0:
        return None
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    return memory[first : first + size]


class Call:
    """A plan bound to arrays: what is to be repeated with no more cost than in C.

    Made by prepare() of a plan.  Has a workspace of its own.  Keeps the plan and the arrays alive
    and reads their current contents each time.  Either run() or run_threads(), or, on threads of
    the caller's own:

        parts = call.begin()                # checks everything
        while parts is not None:
            call.part(i)                    # once for each i in range(parts), any thread, any order
            parts = call.next()             # when all are done

    One thread at a time may run() or begin(); part() may be called by many.
    """

    def __init__(
        self,
        plan: TensorScatter | Gather | Scatter | Attention | TensorScatterAttention | _CacheAttention,
        tensors: Sequence[c.DLTensor | None],
        arrays: tuple,
    ) -> None:
        workspace = _make_workspace(c.library.kvmill_plan_workspace_size(plan._handle))
        self._owners = plan, tensors, arrays, workspace
        self._tensors = (POINTER(c.DLTensor) * len(tensors))(*map(_reference, tensors))
        self._error = c.Error()
        self._call = c.Call()
        self._run_arguments = (
            plan._handle,
            byref(self._tensors),
            None if workspace is None else workspace.ctypes.data,
            byref(self._error),
        )

    def run(self) -> None:
        """Run on the calling thread.  Raises KvmillError; then nothing has been written."""
        _check(c.library.kvmill_run(*self._run_arguments), self._error)

    def run_threads(self, executor: Executor) -> None:
        """Run on the threads of a concurrent.futures.ThreadPoolExecutor.

        The results do not depend on their number.  Raises KvmillError; then nothing has been
        written."""
        parts: int | None = self.begin()
        while parts is not None:
            for _ in executor.map(self.part, range(parts)):
                pass
            parts = self.next()

    def run_parallel(self, parallel_for: c_void_p, data: c_void_p | None = None) -> None:
        """Run on a parallel loop in C, a kvmill_parallel_for (kvmill.h); data is handed to it.

        Raises KvmillError; then nothing has been written."""
        plan, tensors, workspace, error = self._run_arguments
        _check(
            c.library.kvmill_run_parallel(plan, tensors, workspace, parallel_for, data, error),
            self._error,
        )

    def begin(self) -> int:
        """Start a run in parts; returns their number.  Raises KvmillError."""
        _check(c.library.kvmill_begin(byref(self._call), *self._run_arguments), self._error)
        return c.library.kvmill_parts(byref(self._call))

    def part(self, index: int) -> None:
        """Run one part; index must be in [0, parts), which is not checked."""
        c.library.kvmill_part(byref(self._call), index)

    def next(self) -> int | None:
        """End a phase, when all of its parts are done.  Returns the number of parts of the next
        one; None when the run is done."""
        more = c.library.kvmill_next(byref(self._call))
        return c.library.kvmill_parts(byref(self._call)) if more else None


class TensorScatter:
    """A plan of ONNX TensorScatter (opset 24): present = past with the rows of update written along
    `axis`, from slot write_indices[b] of batch entry b on; mode "circular" wraps around.

    past, update, write_indices: prototypes, arrays whose data is not looked at, or tuples with the
    shape, in which None is a dim known only to a run; a tuple needs dtype.  past: [batch, ...],
    rank >= 2; update: the same except dim `axis`, which may be smaller; write_indices: int64
    [batch], or None for all zero.

    axis: [-rank + 1, -1] or [1, rank - 1].
    mode: "linear" or "circular".
    dtype: name of the element type; default: that of the arrays.
    packs: searched for the best kernels, which portable=True forbids to use.
    dynamic: dims of the prototypes that are known only to a run: any of "batch", "capacity" (dim
        `axis` of past) and "rows" (dim `axis` of update).
    isa: best instruction set to use; default: all this CPU has.

    Raises KvmillError for what the library refuses, TypeError and ValueError for arrays that it
    cannot be told about.
    """

    def __init__(
        self,
        past: Prototype,
        update: Prototype,
        write_indices: Prototype | None = None,
        *,
        axis: int = -2,
        mode: str = "linear",
        dtype: str | None = None,
        packs: Sequence[Pack] = (),
        portable: bool = False,
        dynamic: Collection[str] = (),
        isa: str | None = None,
    ) -> None:
        unknown = set(dynamic) - {"batch", "capacity", "rows"}
        if unknown:
            raise ValueError(f"dynamic has {sorted(unknown)}; accepted: batch, capacity, rows")
        self._declared = None if dtype is None else _dtype_named(dtype)
        self._packs = tuple(packs)
        tensors = self._prototypes(past, update, write_indices, axis, dynamic)
        op = c.TensorScatterOp(
            ctypes.sizeof(c.TensorScatterOp), axis, mode.encode(), *map(_reference, tensors)
        )
        options = _plan_options(self._packs, portable, isa)
        self._handle = _make_plan(self, "kvmill_plan_tensor_scatter", op, options)

    def _prototypes(
        self,
        past: Prototype,
        update: Prototype,
        write_indices: Prototype | None,
        axis: int,
        dynamic: Collection[str],
    ) -> list[c.DLTensor | None]:
        rank = len(past) if isinstance(past, tuple) else np.ndim(past)
        dim_of = {"batch": 0, "capacity": axis % max(rank, 1), "rows": axis % max(rank, 1)}

        def tensor(prototype: Prototype, declared: _DType | None, *names: str) -> c.DLTensor:
            open_dims = {dim_of[name] for name in names if name in dynamic}
            return _prototype_tensor(prototype, declared, open_dims)

        return [
            tensor(past, self._declared, "batch", "capacity"),
            tensor(update, self._declared, "batch", "rows"),
            None
            if write_indices is None
            else tensor(write_indices, _index_type(write_indices), "batch"),
        ]

    def describe(self) -> str:
        """What was planned, which kernels were selected, and why."""
        return _describe(self._handle)

    def prepare(
        self,
        past: np.ndarray,
        update: np.ndarray,
        write_indices: np.ndarray | None,
        present: np.ndarray,
    ) -> Call:
        """Bind the plan to arrays, for runs without the cost of Python's side of one.

        present may be past: in place.  Not for 4-bit types and strings, which NumPy lays out
        otherwise (TypeError); everything else as in run().
        """
        arrays = past, update, present
        if any(_is_staged(array, _dtype_of(array, self._declared)) for array in arrays):
            raise TypeError(f"prepare with elements of type {past.dtype}; accepted by run only")
        _require_writable(present)
        tensors = [_array_tensor(array, self._declared) for array in arrays]
        return self._call(tensors, write_indices, arrays)

    def run(
        self,
        past: np.ndarray,
        update: np.ndarray,
        write_indices: np.ndarray | None = None,
        present: np.ndarray | None = None,
    ) -> np.ndarray:
        """Run on arrays that fit the plan; returns present.

        present: None for a new, row-major array; past itself to work in place; or another array of
        the same shape and type.  The caller owns all arrays; other overlaps of present with
        another array are refused, except 4-bit types and strings, which are copied on the way.

        May be called by many threads at a time, on different present arrays.  Raises KvmillError
        (then nothing has been written), TypeError and ValueError.
        """
        past, update = np.asarray(past), np.asarray(update)
        if present is None:
            present = np.empty(past.shape, past.dtype)
        arrays = past, update, present
        if not any(_is_staged(array, _dtype_of(array, self._declared)) for array in arrays):
            self.prepare(past, update, write_indices, present).run()
            return present
        if len({array.dtype for array in arrays}) != 1:
            raise TypeError(
                f"past, update and present of {[array.dtype for array in arrays]}; "
                "accepted for 4-bit types and strings: one type"
            )
        _require_writable(present)
        staged = self._run_handles if past.dtype.hasobject else self._run_nibbles
        present[...] = staged(past, update, write_indices, present)
        return present

    def _call(
        self, tensors: Sequence[c.DLTensor], write_indices: np.ndarray | None, arrays: tuple
    ) -> Call:
        past, update, present = tensors
        indices = None if write_indices is None else np.asarray(write_indices)
        starts = None if indices is None else _array_tensor(indices)
        return Call(self, [past, update, starts, present], (*arrays, indices))

    def _run_nibbles(
        self,
        past: np.ndarray,
        update: np.ndarray,
        write_indices: np.ndarray | None,
        present: np.ndarray,
    ) -> np.ndarray:
        dtype = _dtype_of(past, self._declared)
        packed = [pack_nibbles(past), pack_nibbles(update)]
        packed.append(packed[0] if present is past else np.empty_like(packed[0]))
        shapes = past.shape, update.shape, present.shape
        tensors = [
            _tensor(dtype, shape, data.ctypes.data)
            for shape, data in zip(shapes, packed, strict=True)
        ]
        self._call(tensors, write_indices, tuple(packed)).run()
        return unpack_nibbles(packed[2], past.shape, past.dtype)

    def _run_handles(
        self,
        past: np.ndarray,
        update: np.ndarray,
        write_indices: np.ndarray | None,
        present: np.ndarray,
    ) -> np.ndarray:
        table = np.concatenate([past.reshape(-1), update.reshape(-1)])
        handles = np.arange(table.size, dtype=np.uint64)
        old, new = (
            handles[: past.size].reshape(past.shape),
            handles[past.size :].reshape(update.shape),
        )
        moved = old if present is past else np.empty(present.shape, np.uint64)
        arrays = old, new, moved
        tensors = [_tensor(_DTYPES["string"], array.shape, array.ctypes.data) for array in arrays]
        self._call(tensors, write_indices, arrays).run()
        return table[moved]


def _index_type(write_indices: Prototype) -> _DType | None:
    return _DTYPES["int64"] if isinstance(write_indices, tuple) else None


def _require_writable(array: np.ndarray, name: str = "present") -> None:
    if not array.flags.writeable:
        raise ValueError(f"{name} is read-only; accepted: a writable array")


# ---- ONNX Attention ----

_ATTENTION_INPUTS = _names_of("in", "Attention")
_ATTENTION_OUTPUTS = _names_of("out", "Attention")


def _attention_op(opset: int, attributes: dict[str, float]) -> c.AttentionOp:
    op = c.AttentionOp()
    c.library.kvmill_attention_init(byref(op), ctypes.sizeof(op))
    op.opset = opset
    fields = {name for name, kind in c.AttentionOp._fields_ if kind in (c_int64, c_double)}
    for name, value in attributes.items():
        if name not in fields:
            raise TypeError(f"attribute {name!r}; accepted: those of Attention-{opset}")
        setattr(op, name, value)
    return op


class _OnnxAttention:
    """What plans of Attention and of its step have in common."""

    # Dims that may be known only to a run: their names, by tensors that have them next to last.
    _rows: dict[str, str]
    _names: tuple[str, ...]
    _outputs: Sequence[str]

    def _prototype(self, name: str, array: np.ndarray, dynamic: Collection[str]) -> c.DLTensor:
        unknown = set(dynamic) - {"batch", *self._rows.values()}
        if unknown:
            accepted = ["batch", *dict.fromkeys(self._rows.values())]
            raise ValueError(f"dynamic has {sorted(unknown)}; accepted: {accepted}")
        dims = {0} if "batch" in dynamic else set()
        dims |= {array.ndim - 2} if self._rows.get(name) in dynamic else set()
        if name == "attn_mask" and dynamic:
            dims = set(range(array.ndim))
        return _prototype_tensor(array, None, dims)

    def describe(self) -> str:
        """What was planned, which kernels were selected, and why."""
        return _describe(self._handle)

    @property
    def workspace_size(self) -> int:
        """Bytes of workspace of a run."""
        return c.library.kvmill_plan_workspace_size(self._handle)

    def _bind(self, tensors: dict[str, np.ndarray | None]) -> Call:
        unknown = set(tensors) - set(self._names)
        if unknown:
            raise TypeError(f"tensors {sorted(unknown)}; accepted: {self._names}")
        for name in self._outputs:
            if tensors.get(name) is None:
                raise TypeError(f"no {name}; accepted: an array for every output of the plan")
            _require_writable(tensors[name], name)
        arrays = [tensors.get(name) for name in self._names]
        given = [None if array is None else _array_tensor(array) for array in arrays]
        return Call(self, given, tuple(arrays))


class Attention(_OnnxAttention):
    """A plan of ONNX Attention, opsets 23, 24 and 25.

    Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen: arrays whose data is not looked at;
    None: there is none, and so it must be in each run.
    outputs: those that are wanted besides Y, of "present_key", "present_value", "qk_matmul_output".
    attributes: those of the standard, by their names; what is not given has its default.
    dynamic: dims known only to a run: any of "batch", "queries", "keys" (rows of K) and "past".
    packs, portable, isa: as for TensorScatter; threads: most threads that a Call runs on at a time.

    Raises KvmillError for what the library refuses, TypeError and ValueError for arrays that it
    cannot be told about.
    """

    _rows = {"Q": "queries", "K": "keys", "V": "keys", "past_key": "past", "past_value": "past"}
    _names = _ordered("Attention")

    def __init__(
        self,
        Q: np.ndarray,
        K: np.ndarray,
        V: np.ndarray,
        attn_mask: np.ndarray | None = None,
        past_key: np.ndarray | None = None,
        past_value: np.ndarray | None = None,
        nonpad_kv_seqlen: np.ndarray | None = None,
        *,
        opset: int = 25,
        outputs: Collection[str] = (),
        packs: Sequence[Pack] = (),
        portable: bool = False,
        isa: str | None = None,
        threads: int = 0,
        dynamic: Collection[str] = (),
        **attributes: float,
    ) -> None:
        unknown = set(outputs) - set(_ATTENTION_OUTPUTS)
        if unknown:
            raise ValueError(f"outputs has {sorted(unknown)}; accepted: {_ATTENTION_OUTPUTS}")
        self._packs = tuple(packs)
        self._outputs = [name for name in _ATTENTION_OUTPUTS if name == "Y" or name in outputs]
        inputs = (Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen)
        tensors = dict(zip(_ATTENTION_INPUTS, inputs, strict=True))
        op = _attention_op(opset, attributes)
        self._heads = op.q_num_heads, op.kv_num_heads
        prototypes = {
            name: self._prototype(name, array, dynamic)
            for name, array in tensors.items()
            if array is not None
        }
        for name in self._outputs[1:]:
            like = V if name == "present_value" else Q
            prototypes[name] = _tensor(_dtype_of(like, None), [c.DYNAMIC] * 4)
        for name, tensor in prototypes.items():
            setattr(op, name, _reference(tensor))
        options = _plan_options(self._packs, portable, isa, threads)
        self._handle = _make_plan(self, "kvmill_plan_attention", op, options)

    def prepare(self, **tensors: np.ndarray | None) -> Call:
        """Bind the plan to arrays by their names in the standard, outputs too."""
        return self._bind(tensors)

    def run(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        """Run on arrays in the order of the standard; returns new arrays: Y, and what else the plan
        has, in the order of the standard.

        May be called by many threads at a time.  Raises KvmillError, TypeError and ValueError.
        """
        tensors = dict(zip(_ATTENTION_INPUTS, inputs, strict=False))
        outputs = {name: self._new_output(name, tensors) for name in self._outputs}
        self.prepare(**tensors, **outputs).run()
        return tuple(outputs.values())

    def _new_output(self, name: str, tensors: dict[str, np.ndarray | None]) -> np.ndarray:
        Q, K, V, past = (tensors.get(n) for n in ("Q", "K", "V", "past_key"))
        packed = Q.ndim == 3
        heads, kv_heads = self._heads if packed else (Q.shape[1], K.shape[1])
        keys = K.shape[-2] + (0 if past is None else past.shape[2])
        dim = V.shape[-1] // kv_heads if packed else V.shape[-1]
        shapes = {
            "Y": (*Q.shape[:2], heads * dim) if packed else (*Q.shape[:3], dim),
            "present_key": (Q.shape[0], kv_heads, keys, Q.shape[-1] // (heads if packed else 1)),
            "present_value": (Q.shape[0], kv_heads, keys, dim),
            "qk_matmul_output": (Q.shape[0], heads, Q.shape[-2], keys),
        }
        return np.empty(shapes[name], V.dtype if name == "present_value" else Q.dtype)


class TensorScatterAttention(_OnnxAttention):
    """A plan of a step: TensorScatter of K and V into caches, then Attention over what is valid.

    Q, K, V: queries and as many new rows; past_key, past_value: the caches, of Q's rank, [batch, kv
    heads, capacity, dim] or [batch, capacity, kv heads * dim]; write_indices, nonpad_kv_seqlen,
    attn_mask: as kvmill.h says.  Arrays whose data is not looked at; None: there is none, and so it
    must be in each run.
    mode: "linear" or "circular".
    dynamic: dims known only to a run: any of "batch", "queries" and "capacity".
    attributes, packs, portable, isa, threads: as for Attention; opset 24 or 25.

    Raises KvmillError for what the library refuses, TypeError and ValueError for arrays that it
    cannot be told about.
    """

    _rows = {
        **dict.fromkeys(("Q", "K", "V"), "queries"),
        **dict.fromkeys(("past_key", "past_value"), "capacity"),
    }
    _names = _ordered("TensorScatterAttention", "Attention")
    _outputs = ("Y", "present_key", "present_value")

    def __init__(
        self,
        Q: np.ndarray,
        K: np.ndarray,
        V: np.ndarray,
        past_key: np.ndarray,
        past_value: np.ndarray,
        write_indices: np.ndarray | None = None,
        nonpad_kv_seqlen: np.ndarray | None = None,
        attn_mask: np.ndarray | None = None,
        *,
        mode: str = "linear",
        opset: int = 25,
        packs: Sequence[Pack] = (),
        portable: bool = False,
        isa: str | None = None,
        threads: int = 0,
        dynamic: Collection[str] = (),
        **attributes: float,
    ) -> None:
        self._packs = tuple(packs)
        attention = _attention_op(opset, attributes)
        inputs = (Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen)
        tensors = dict(zip(_ATTENTION_INPUTS, inputs, strict=True), write_indices=write_indices)
        prototypes = {
            name: None if array is None else self._prototype(name, array, dynamic)
            for name, array in tensors.items()
        }
        for name in _ATTENTION_INPUTS:
            setattr(attention, name, _reference(prototypes[name]))
        self._heads = attention.q_num_heads, attention.kv_num_heads
        op = c.AttentionStepOp(
            ctypes.sizeof(c.AttentionStepOp),
            ctypes.pointer(attention),
            mode.encode(),
            _reference(prototypes["write_indices"]),
        )
        options = _plan_options(self._packs, portable, isa, threads)
        self._handle = _make_plan(self, "kvmill_plan_tensor_scatter_attention", op, options)

    def prepare(self, write_indices: np.ndarray | None = None, **tensors: np.ndarray) -> Call:
        """Bind the plan to arrays by their names, outputs too; present_key may be past_key, and
        present_value past_value: in place."""
        return self._bind({**tensors, "write_indices": write_indices})

    def run(
        self,
        Q: np.ndarray,
        K: np.ndarray,
        V: np.ndarray,
        past_key: np.ndarray,
        past_value: np.ndarray,
        write_indices: np.ndarray | None = None,
        nonpad_kv_seqlen: np.ndarray | None = None,
        attn_mask: np.ndarray | None = None,
        *,
        in_place: bool = True,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Run on arrays that fit the plan.  In place: the caches are updated, returns Y; else
        returns Y and new caches.  Raises KvmillError, TypeError and ValueError."""
        heads, kv_heads = self._heads if Q.ndim == 3 else (Q.shape[1], K.shape[1])
        last = V.shape[-1] // kv_heads * heads if Q.ndim == 3 else V.shape[-1]
        Y = np.empty((*Q.shape[:-1], last), Q.dtype)
        caches = past_key, past_value
        if not in_place:
            caches = np.empty_like(past_key), np.empty_like(past_value)
        self.prepare(
            write_indices,
            Q=Q,
            K=K,
            V=V,
            attn_mask=attn_mask,
            past_key=past_key,
            past_value=past_value,
            nonpad_kv_seqlen=nonpad_kv_seqlen,
            Y=Y,
            present_key=caches[0],
            present_value=caches[1],
        ).run()
        return Y if in_place else (Y, *caches)


# ---- StableHLO ----


def _dims(items: Sequence[int]) -> c.Dims:
    return c.Dims((c_int64 * len(items))(*items), len(items))


class Gather:
    """A plan of stablehlo.gather: a window of operand for each index vector of start_indices.

    operand, start_indices: prototypes, arrays whose data is not looked at, or tuples with the shape;
    of a tuple for operand dtype is the element type, one for start_indices is of int32.
    slice_sizes, offset_dims, collapsed_slice_dims, operand_batching_dims,
    start_indices_batching_dims, start_index_map, index_vector_dim, indices_are_sorted: those of
    StableHLO.
    mode: "clip" moves a window inside, as StableHLO says; "fill" makes a window that is not inside
        fill_value.
    fill_value: None for JAX's choice: NaN, the least signed, the largest unsigned integer, True.
    dtype, packs, portable, isa: as for TensorScatter.

    Raises KvmillError for what the library refuses, TypeError and ValueError for arrays that it
    cannot be told about.
    """

    def __init__(
        self,
        operand: Prototype,
        start_indices: Prototype,
        *,
        slice_sizes: Sequence[int],
        offset_dims: Sequence[int] = (),
        collapsed_slice_dims: Sequence[int] = (),
        operand_batching_dims: Sequence[int] = (),
        start_indices_batching_dims: Sequence[int] = (),
        start_index_map: Sequence[int] = (),
        index_vector_dim: int = 0,
        indices_are_sorted: bool = False,
        mode: str = "clip",
        fill_value: object = None,
        dtype: str | None = None,
        packs: Sequence[Pack] = (),
        portable: bool = False,
        isa: str | None = None,
    ) -> None:
        self._declared = None if dtype is None else _dtype_named(dtype)
        self._packs = tuple(packs)
        index_type = _DTYPES["int32"] if isinstance(start_indices, tuple) else None
        tensors = [
            _window_tensor(operand, self._declared),
            _window_tensor(start_indices, index_type),
        ]
        fill = _fill_of(operand, fill_value)
        op = c.GatherOp(
            ctypes.sizeof(c.GatherOp),
            offset_dims=_dims(offset_dims),
            collapsed_slice_dims=_dims(collapsed_slice_dims),
            operand_batching_dims=_dims(operand_batching_dims),
            start_indices_batching_dims=_dims(start_indices_batching_dims),
            start_index_map=_dims(start_index_map),
            slice_sizes=_dims(slice_sizes),
            index_vector_dim=index_vector_dim,
            indices_are_sorted=indices_are_sorted,
            mode=mode.encode(),
            fill_value=None if fill is None else fill.ctypes.data,
            operand=_reference(tensors[0]),
            start_indices=_reference(tensors[1]),
        )
        options = _plan_options(self._packs, portable, isa)
        self._handle = _make_plan(self, "kvmill_plan_gather", op, options)
        space = [n for d, n in enumerate(_shape_of(start_indices)) if d != index_vector_dim]
        dropped = {*collapsed_slice_dims, *operand_batching_dims}
        window = [n for d, n in enumerate(slice_sizes) if d not in dropped]
        self._result_shape = _interleaved(space, window, offset_dims)

    def describe(self) -> str:
        """What was planned, which kernel was selected, and why."""
        return _describe(self._handle)

    def prepare(
        self, operand: np.ndarray, start_indices: np.ndarray, result: np.ndarray
    ) -> Call:
        """Bind the plan to arrays, for runs without the cost of Python's side of one."""
        _require_writable(result, "result")
        arrays = operand, start_indices, result
        declared = self._declared, None, self._declared
        tensors = [_array_tensor(*pair) for pair in zip(arrays, declared, strict=True)]
        return Call(self, tensors, arrays)

    def run(
        self, operand: np.ndarray, start_indices: np.ndarray, result: np.ndarray | None = None
    ) -> np.ndarray:
        """Run on arrays that fit the plan; returns result.

        result: None for a new, row-major array; or one of the right shape and type, apart from the
        others.  May be called by many threads at a time, on different results.  Raises KvmillError
        (then nothing has been written), TypeError and ValueError.
        """
        operand, start_indices = np.asarray(operand), np.asarray(start_indices)
        if result is None:
            result = np.empty(self._result_shape, operand.dtype)
        self.prepare(operand, start_indices, result).run()
        return result


def _window_tensor(prototype: Prototype, declared: _DType | None) -> c.DLTensor:
    """A prototype whose elements are as NumPy holds them."""
    if isinstance(prototype, tuple):
        return _prototype_tensor(prototype, declared, ())
    return _array_tensor(np.asarray(prototype), declared)


def _shape_of(prototype: Prototype) -> Sequence[int | None]:
    return prototype if isinstance(prototype, tuple) else np.shape(prototype)


def _fill_of(operand: Prototype, fill_value: object) -> np.ndarray | None:
    """One element, of the operand's type where that is an array."""
    if fill_value is None:
        return None
    return np.array([fill_value], None if isinstance(operand, tuple) else np.asarray(operand).dtype)


def _interleaved(
    space: Sequence[int], window: Sequence[int], offset_dims: Sequence[int]
) -> list[int]:
    """Extents of a result: those of the window at offset_dims, those of the index space between."""
    points, extents = iter(space), iter(window)
    axes = range(len(space) + len(window))
    return [next(extents) if d in offset_dims else next(points) for d in axes]


Arrays = np.ndarray | Sequence[np.ndarray]


def _list_of(arrays: Arrays) -> list[np.ndarray]:
    return [arrays] if isinstance(arrays, np.ndarray) else list(arrays)


def _references(tensors: Sequence[c.DLTensor]):
    return (POINTER(c.DLTensor) * len(tensors))(*map(_reference, tensors))


class Scatter:
    """A plan of stablehlo.scatter whose region is one combiner: results = inputs, with every
    element of updates combined at the place that scatter_indices tell, in row-major order.

    inputs, updates: an array or, for a variadic scatter, a sequence of arrays; scatter_indices: an
    array.  All are prototypes: their data is not looked at.  Types of fewer than 8 bits take a byte
    each, as ml_dtypes has them.

    update_window_dims to unique_indices: as in the specification of StableHLO.
    window_out_of_bounds: what becomes of a window that is partly outside; "skip_element" (as
        StableHLO says) or "skip_window" (as XLA and JAX do).
    update_computation: replace, add, subtract, multiply, minimum, maximum, and, or, xor.
    packs: searched for the best kernels, which portable=True forbids to use.
    isa: best instruction set to use; default: all this CPU has.

    Raises KvmillError for what the library refuses, TypeError and ValueError for arrays that it
    cannot be told about.
    """

    def __init__(
        self,
        inputs: Arrays,
        scatter_indices: np.ndarray,
        updates: Arrays,
        *,
        update_window_dims: Sequence[int] = (),
        inserted_window_dims: Sequence[int] = (),
        input_batching_dims: Sequence[int] = (),
        scatter_indices_batching_dims: Sequence[int] = (),
        scatter_dims_to_operand_dims: Sequence[int] = (),
        index_vector_dim: int = 0,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        window_out_of_bounds: str = "skip_element",
        update_computation: str = "replace",
        packs: Sequence[Pack] = (),
        portable: bool = False,
        isa: str | None = None,
    ) -> None:
        self._packs = tuple(packs)
        prototypes = [[_prototype_tensor(a, None, ()) for a in _list_of(x)] for x in (inputs, updates)]
        if len(prototypes[0]) != len(prototypes[1]):
            raise ValueError(
                f"{len(prototypes[1])} updates; accepted: as many as inputs, {len(prototypes[0])}"
            )
        op = c.ScatterOp(
            ctypes.sizeof(c.ScatterOp),
            update_window_dims=_dims(update_window_dims),
            inserted_window_dims=_dims(inserted_window_dims),
            input_batching_dims=_dims(input_batching_dims),
            scatter_indices_batching_dims=_dims(scatter_indices_batching_dims),
            scatter_dims_to_operand_dims=_dims(scatter_dims_to_operand_dims),
            index_vector_dim=index_vector_dim,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            window_out_of_bounds=window_out_of_bounds.encode(),
            update_computation=update_computation.encode(),
            count=len(prototypes[0]),
            inputs=_references(prototypes[0]),
            updates=_references(prototypes[1]),
            scatter_indices=_reference(_prototype_tensor(scatter_indices, None, ())),
        )
        self._handle = _make_plan(
            self, "kvmill_plan_scatter", op, _plan_options(self._packs, portable, isa)
        )

    def describe(self) -> str:
        """What was planned, which kernels were selected, and why."""
        return _describe(self._handle)

    def prepare(
        self, inputs: Arrays, scatter_indices: np.ndarray, updates: Arrays, results: Arrays
    ) -> Call:
        """Bind the plan to arrays, for runs without the cost of Python's side of one.

        results may be inputs: in place.  Everything else as in run().
        """
        for array in _list_of(results):
            _require_writable(array, "results")
        arrays = (
            *_list_of(inputs),
            np.asarray(scatter_indices),
            *_list_of(updates),
            *_list_of(results),
        )
        return Call(self, [_array_tensor(array) for array in arrays], arrays)

    def run(
        self,
        inputs: Arrays,
        scatter_indices: np.ndarray,
        updates: Arrays,
        results: Arrays | None = None,
    ) -> Arrays:
        """Run on arrays that fit the plan; returns results, as inputs are given: one or a list.

        results: None for new, row-major arrays; the inputs themselves to work in place; or other
        arrays of the same shapes and types.  Other overlaps of results with another array are
        refused.

        May be called by many threads at a time, on different results.  Raises KvmillError (then
        nothing has been written), TypeError and ValueError.
        """
        if results is None:
            made = [np.empty(array.shape, array.dtype) for array in _list_of(inputs)]
            results = made[0] if isinstance(inputs, np.ndarray) else made
        self.prepare(inputs, scatter_indices, updates, results).run()
        return results


# ---- Cache attention ----

_CACHE_OPS = tuple(
    prefix + op
    for prefix in ("", "dynamic_batching.")
    for op in ("KeyValueCache", "MultiHeadAttention", "MultiHeadCacheAttention")
)
_ATTENTION_TENSORS = _ordered(*_CACHE_OPS)
_ATTENTION_TYPES = _types_of(*_CACHE_OPS)
_ATTENTION_CACHES = _names_of("inout", *_CACHE_OPS)

_ATTENTION_ATTRIBUTES = {name for name, _ in c.CacheAttentionOp._fields_} - {
    "struct_size",
    "value_differs",
}
_VALUE_ATTRIBUTES = {name for name in _ATTENTION_ATTRIBUTES if name.startswith("value_")}


def _attribute(kind: type, value: object) -> object:
    """An attribute as its C type; element types and words are given by name."""
    if kind is c.DLDataType:
        dtype = _dtype_named(value)
        return c.DLDataType(dtype.code, dtype.bits, 1)
    return value.encode() if isinstance(value, str) else value


def _cache_type(T1: str, quant_bit: int, cache_format: str | None) -> str:
    """The only type a cache can have, or else T1."""
    return "uint8" if cache_format else {8: "int8", 4: "int4"}.get(quant_bit, T1)


def _scale_type(T1: str) -> str:
    return "float32" if _dtype_named(T1).bits == 32 else "float16"


def _set_members(op: Structure, members: dict[str, object]) -> None:
    kinds = dict(type(op)._fields_)
    for name, value in members.items():
        if value is not None:
            setattr(op, name, _attribute(kinds[name], value))


class _CacheAttention:
    """What ops that read caches have in common."""

    _function = ""  # of the library
    _attributes: Collection[str] = _ATTENTION_ATTRIBUTES
    _names: tuple[str, ...] = _ATTENTION_TENSORS
    _written: tuple[str, ...] = _ATTENTION_CACHES
    _outputs: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        T1: str,
        packs: Sequence[Pack] = (),
        portable: bool = False,
        isa: str | None = None,
        threads: int = 1,
        **attributes: int | float | str | bool,
    ) -> None:
        unknown = set(attributes) - self._attributes
        if unknown:
            raise TypeError(
                f"attributes {sorted(unknown)}; accepted: {', '.join(sorted(self._attributes))}"
            )
        self._packs = tuple(packs)
        self._op = self._make_op(T1, attributes)
        options = _plan_options(self._packs, portable, isa, threads)
        self._handle = _make_plan(self, self._function, self._op, options)

    def _make_op(self, T1: str, given: dict[str, object]) -> c.CacheAttentionOp:
        op = c.CacheAttentionOp()
        c.library.kvmill_cache_attention_init(byref(op), ctypes.sizeof(op))
        attributes = {"T1": T1, **given}
        self._types = self._complete_types(attributes)
        op.value_differs = not _VALUE_ATTRIBUTES.isdisjoint(given)
        _set_members(op, attributes | self._types)
        return op

    @staticmethod
    def _complete_types(attributes: dict) -> dict[str, str]:
        """Names of T1 to T3 and of those of V, with defaults filled in."""
        T1 = attributes["T1"]
        quant_bit, cache_format = attributes.get("quant_bit", 0), attributes.get("cache_format")
        types = {
            "T1": T1,
            "T2": attributes.get("T2", _cache_type(T1, quant_bit, cache_format)),
            "T3": attributes.get("T3", _scale_type(T1)),
        }
        if not _VALUE_ATTRIBUTES.isdisjoint(attributes):
            types |= _CacheAttention._complete_value_types(attributes, types)
        return types

    @staticmethod
    def _complete_value_types(attributes: dict, types: dict[str, str]) -> dict[str, str]:
        """V's, and V's other attributes into `attributes`: what is left out is as K's."""
        says_how = {"value_quant_bit", "value_cache_format", "value_T2"} & set(attributes)
        if not says_how:
            for name in ("quant_bit", "cache_format"):
                attributes[f"value_{name}"] = attributes.get(name)
        quant_bit = attributes.get("value_quant_bit") or 0
        cache_format = attributes.get("value_cache_format")
        default = _cache_type(types["T1"], quant_bit, cache_format) if says_how else types["T2"]
        return {
            "value_T2": attributes.get("value_T2", default),
            "value_T3": attributes.get("value_T3", types["T3"]),
        }

    def describe(self) -> str:
        """What was planned, which kernels were selected, and why."""
        return _describe(self._handle)

    @property
    def workspace_size(self) -> int:
        """Bytes that a Call allocates for the library's use."""
        return c.library.kvmill_plan_workspace_size(self._handle)

    def prepare(self, **tensors: Operand) -> Call:
        """Bind the plan to arrays, outputs included, for runs without the cost of Python's side.

        The arrays are those of run(); numbers given otherwise than as arrays are copied here.
        """
        unknown = set(tensors) - set(self._names)
        if unknown:
            raise TypeError(f"tensors {sorted(unknown)}; accepted: {', '.join(self._names)}")
        arrays = {
            name: np.asarray(array) for name, array in tensors.items() if array is not None
        }
        for name in (*self._written, *self._outputs):
            if name in arrays:
                _require_writable(arrays[name], name)
        ordered = [self._tensor(name, arrays.get(name)) for name in self._names]
        return Call(self, ordered, tuple(arrays.values()))

    def _declared(self, name: str) -> _DType | None:
        """The element type of a tensor; None where the array's own tells."""
        is_partial = name == "attn_output" and self._op.partial
        word = None if is_partial else _ATTENTION_TYPES.get(name)
        return _dtype_named(self._types[word]) if word in self._types else None

    def _tensor(self, name: str, array: np.ndarray | None) -> c.DLTensor | None:
        if array is None:
            return None
        declared = self._declared(name)
        if declared is None or declared.bits != 4:
            return _array_tensor(array, declared)
        if array.dtype != np.uint8 or not array.flags.c_contiguous or array.ndim == 0:
            raise TypeError(
                f"{name} of {array.dtype}; accepted for {declared.name}: uint8, two elements each, "
                "row-major without gaps"
            )
        shape = (*array.shape[:-1], 2 * array.shape[-1])
        return _tensor(declared, shape, array.ctypes.data)

    def _run(
        self, tensors: dict, executor: Executor | None, wanted: tuple[str, ...] = ()
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        tensors = {name: None if a is None else np.asarray(a) for name, a in tensors.items()}
        wanted = wanted or self._outputs
        for name in wanted:
            if tensors.get(name) is None:
                tensors[name] = self._new_output(name, tensors)
        call = self.prepare(**tensors)
        if executor is None:
            call.run()
        else:
            call.run_threads(executor)
        outputs = tuple(tensors[name] for name in wanted)
        return outputs[0] if len(outputs) == 1 else outputs

    def _new_output(self, name: str, tensors: dict) -> np.ndarray:
        raise NotImplementedError


def _required(tensors: dict, name: str, rank: int = 0) -> np.ndarray:
    array = tensors.get(name)
    if array is None or array.ndim < rank:
        have = "None" if array is None else f"of shape {array.shape}"
        raise ValueError(f"{name} is {have}; accepted: an array of rank {rank}")
    return array


class _Attending(_CacheAttention):
    """The ops that have a query."""

    def __init__(self, **attributes: object) -> None:
        super().__init__(**attributes)
        self._outputs = ("attn_output", "lse") if self._op.partial else ("attn_output",)

    def _new_output(self, name: str, tensors: dict) -> np.ndarray:
        query = _required(tensors, "query", 3)
        if name == "lse":
            return np.empty(query.shape[:-1], np.float32)
        dim = self._op.value_head_dim if self._op.value_differs else 0
        dtype = np.float32 if self._op.partial else query.dtype
        return np.empty((*query.shape[:-1], dim or query.shape[-1]), dtype)


class MultiHeadCacheAttention(_Attending):
    """A plan of PMX MultiHeadCacheAttention: store current_key and current_value in the cache, then
    attend over what is in it.  With dynamic_batching=True: opmx.dynamic_batching's.

    T1: element type of activations, "float32", "float16" or "bfloat16".
    attributes: those of the op, by their names in kvmill.h, where their defaults are; num_heads and
        head_dim have none.  T2 defaults to what quant_bit and cache_format say, else to T1; T3 to
        float16, with T1 float32 to that.  Any value_... makes value_cache (and value_scale) tensors
        of their own; what is left out of these is as K's.
    packs: searched for the best kernels, which portable=True forbids to use.
    isa: best instruction set to use; default: all this CPU has.
    threads: most threads that run parts of one call at a time; workspaces grow with it.

    The plan needs no shapes; it may run in any number of threads at a time, on different caches.
    Raises KvmillError for what the library refuses, TypeError for unknown names.
    """

    _function = "kvmill_plan_multi_head_cache_attention"

    def run(
        self, *, executor: Executor | None = None, **tensors: Operand
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Run on arrays; returns attn_output, with partial=True (attn_output, lse).

        Static batch (S new tokens, H query heads, KVH kv heads, D = head_dim): query [B, S, H, D],
        current_key and current_value [B, S, KVH, D], start_pos one int64, cache and scale as
        cache_layout says; attn_mask, sinks [H] if wanted.

        Dynamic batching: query, current_key, current_value without B, the tokens of all sequences
        behind each other; seqstarts, kvstarts [B + 1], start_pos [B], cachestarts [B] or
        [B, pages], decoding_batches, max_seqlen, max_kvlen: int64; attn_mask, sinks if wanted.

        cache and scale are updated in place.  A bfloat16 array is one of ml_dtypes, or its bits as
        uint16, a float8 one likewise as uint8; an int4 cache is uint8, two elements each, the last
        dim head_dim / 2; with a cache_format it is uint8, the bytes of blocks.  attn_output and
        lse: arrays to write to, else new ones are made (attn_output as query, float32 with
        partial).  The caller owns all arrays.  executor: a ThreadPoolExecutor to run on; no more
        than `threads` of its workers help at a time.

        Raises KvmillError (then nothing has been written), TypeError and ValueError.
        """
        return self._run(tensors, executor)


class MultiHeadAttention(_Attending):
    """A plan of PMX MultiHeadAttention: attend over keys and values that are given.

    Parameters as of MultiHeadCacheAttention, except those of a cache; value_head_dim where values
    are not as long as keys.
    """

    _function = "kvmill_plan_multi_head_attention"

    def run(
        self, *, executor: Executor | None = None, **tensors: Operand
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Run on arrays; returns attn_output, with partial=True (attn_output, lse).

        As of MultiHeadCacheAttention, with key and value [B, KV, KVH, D], or [kvstarts[B], KVH, D]
        and no start_pos and cachestarts with dynamic batching.
        """
        return self._run(tensors, executor)


class KeyValueCache(_CacheAttention):
    """A plan of PMX KeyValueCache: store current_key and current_value in the cache, then read all
    of it back.

    Parameters as of MultiHeadCacheAttention, except those of scores; head_dim and num_kv_heads are
    required, num_repeat says how many times each head is read back.  T1 and T2 may both be int8:
    codes are copied.
    """

    _function = "kvmill_plan_key_value_cache"
    _outputs = ("key", "value")

    def run(
        self, *, executor: Executor | None = None, **tensors: Operand
    ) -> tuple[np.ndarray, np.ndarray]:
        """Run on arrays; returns key and value, [B, start_pos + S, KVH * num_repeat, D] or
        [kvstarts[B], KVH * num_repeat, D].

        As of MultiHeadCacheAttention, without query, decoding_batches, masks and sinks.
        """
        return self._run(tensors, executor)

    def _new_output(self, name: str, tensors: dict) -> np.ndarray:
        current = _required(tensors, f"current_{name}", 3)
        heads = current.shape[-2] * self._op.num_repeat
        if self._op.dynamic_batching:
            tokens: tuple[int, ...] = (int(_required(tensors, "kvstarts", 1)[-1]),)
        else:
            start = _required(tensors, "start_pos").reshape(-1)[:1].sum()
            tokens = (current.shape[0], int(start) + current.shape[1])
        shape = (*(max(count, 0) for count in tokens), heads, current.shape[-1])
        return np.empty(shape, current.dtype)


class CacheAttend(_CacheAttention):
    """A plan of CacheAttend: attention over keys and values that are anywhere, written by anybody.

    T1: element type of query, "float32", "float16" or "bfloat16".
    attributes: those of kvmill_cache_attend, by their names in kvmill.h, where their defaults are;
        num_heads and key_head_dim have none.  key_T2 defaults to what key_quant_bit and
        key_cache_format say, else to T1; key_T3 to float16, with T1 float32 to that; V's likewise
        where any of value_quant_bit, value_cache_format and value_T2 is given, else V has K's
        format.  mask_T1 has to be given for an attn_mask.
    packs, portable, isa, threads: as of MultiHeadCacheAttention.

    The plan needs no shapes; it may run in any number of threads at a time.  Raises KvmillError for
    what the library refuses, TypeError for unknown names.
    """

    _function = "kvmill_plan_cache_attend"
    _attributes = frozenset(name for name, _ in c.CacheAttendOp._fields_) - {"struct_size"}
    _names = _ordered("CacheAttend")
    _written = _names_of("out", "CacheAttend")
    _outputs = ("attn_output",)
    _rows = {tensor.name: tensor for tensor in TENSORS["CacheAttend"]}

    def _make_op(self, T1: str, given: dict[str, object]) -> c.CacheAttendOp:
        op = c.CacheAttendOp()
        c.library.kvmill_cache_attend_init(byref(op), ctypes.sizeof(op))
        attributes = {"T1": T1, **given}
        said = {name for name, value in given.items() if value is not None}
        attributes |= self._side_types("key_", attributes)
        if not said.isdisjoint({"value_quant_bit", "value_cache_format", "value_T2"}):
            attributes |= self._side_types("value_", attributes)
        types = {name for name, kind in c.CacheAttendOp._fields_ if kind is c.DLDataType}
        self._types = {name: attributes[name] for name in types if attributes.get(name)}
        if "value_T2" not in self._types:
            self._types |= {"value_T2": self._types["key_T2"], "value_T3": self._types["key_T3"]}
        _set_members(op, attributes)
        return op

    @staticmethod
    def _side_types(side: str, given: dict) -> dict[str, str]:
        """T2 and T3 of "key_" or "value_"."""
        default = _cache_type(
            given["T1"], given.get(f"{side}quant_bit") or 0, given.get(f"{side}cache_format")
        )
        return {
            f"{side}T2": given.get(f"{side}T2") or default,
            f"{side}T3": given.get(f"{side}T3") or _scale_type(given["T1"]),
        }

    def _declared(self, name: str) -> _DType | None:
        row = self._rows[name]
        word = row.wide if row.wide_when in self._types else row.type
        return _dtype_named(self._types[word]) if word in self._types else None

    def _tensor(self, name: str, array: np.ndarray | None) -> c.DLTensor | None:
        """4-bit codes are handed over as bytes of two: so their rows may have strides."""
        declared = None if array is None else self._declared(name)
        if declared is None or declared.bits != 4:
            return super()._tensor(name, array)
        if array.dtype != np.uint8:
            raise TypeError(
                f"{name} of {array.dtype}; accepted for {declared.name}: uint8, two elements each"
            )
        return _array_tensor(array)

    def run(
        self,
        *,
        executor: Executor | None = None,
        lse: np.ndarray | bool = False,
        **tensors: Operand,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Run on arrays; returns attn_output, with lse (attn_output, lse).

        B sequences, S queries of each or N of all, H query heads, G kv heads, D = key_head_dim:
        query [B, S, H, D], or [N, H, D] with query_starts [B + 1]; key and value [B, T, G, D] or
        [C, G, D], with page lists also [pages, page_size, G, D], their last dim as the format has
        it, the others of any strides; key_scale, value_scale where the format has them.

        Rows are named by one of lengths [B]; ranges [N, 2]; page_ids and page_starts [B + 1] or
        [B * G + 1]; slots and slot_starts [B + 1].  If wanted: positions [N], key_positions,
        attn_mask [T], [S, T], [H, S, T] or [B, H, S, T], alibi_slopes [H], sinks [H].  Numbers are
        int64 or int32 arrays, or sequences; all else is as kvmill.h says.

        Types that NumPy lacks are as of MultiHeadCacheAttention; 4-bit codes are uint8, two each.
        attn_output: an array to write to, else a new one is made; lse: likewise, or True for a new
        one.  The caller owns all arrays.  executor: a ThreadPoolExecutor to run on.

        Raises KvmillError (then nothing has been written), TypeError and ValueError.
        """
        given = isinstance(lse, np.ndarray)
        wanted = ("attn_output", "lse") if given or lse else ("attn_output",)
        return self._run({**tensors, "lse": lse if given else None}, executor, wanted)

    def _new_output(self, name: str, tensors: dict) -> np.ndarray:
        query = _required(tensors, "query", 3)
        if name == "lse":
            return np.empty(query.shape[:-1], np.float32)
        is_wide = self._declared(name).name == "float32"
        dim = self._op.value_head_dim or self._op.key_head_dim
        return np.empty((*query.shape[:-1], dim), np.float32 if is_wide else query.dtype)


_FLOW_STEPS = ("append", "index", "attend", "decode")
_FLOW_TENSORS = tuple(name for name in _ordered(*_FLOW_STEPS) if name not in _ATTENTION_TENSORS)
_FLOW_TYPES = _types_of(*_FLOW_STEPS)
_FLOW_ALL = 2**31 - 1

# What alpha and beta are where a flow does not say; of ops that are not here 0 and 1.
_FLOW_DEFAULTS = {"Add": (1, 1), "Relu": (0, 0)}
_FLOW_REQUIRED = {"MaskSlice": ("alpha", "beta"), "Sigmoid": ("beta",), "Silu": ("beta",)}


def _known(place: str, given: dict, *known: str, needed: Sequence[str] = ()) -> dict:
    if not isinstance(given, dict):
        raise ValueError(f"{place}: {given!r}; accepted: an object")
    for name in needed:
        if name not in given:
            raise ValueError(f"{place}: no {name}; accepted: {name}")
    unknown = set(given) - set(known)
    if unknown:
        raise ValueError(f"{place}: {sorted(unknown)}; accepted: {', '.join(known)}")
    return given


def _word(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _of_0_1(attention: dict) -> dict:
    """The attention of a flow, whose window of version 0.1 counts a query's own position, too."""
    if "window" not in attention:
        return attention
    others = {name: value for name, value in attention.items() if name != "window"}
    if "left_window_size" in others:
        raise ValueError("attention has window and left_window_size; accepted: one of them")
    return {**others, "left_window_size": attention["window"] - 1}


class Flow:
    """A sparse flow: attention over a paged cache that reads some of the pages alone.

    source: a flow file (kvmill-specs(5)), or what such a file holds as a dict.
    attention: attributes of the attention that differ from the source's, as num_heads=32.

    Raises KvmillError for what the library refuses, ValueError or TypeError for what is no flow.
    """

    def __init__(
        self, source: str | os.PathLike[str] | dict, **attention: int | float | str | bool
    ) -> None:
        spec = source if isinstance(source, dict) else json.loads(Path(source).read_text("utf-8"))
        keys = ("op", "purpose", "name", "attention", "fields", "constants", "cache", "index")
        _known("flow", spec, *keys, "select", "summary", "layers_skip")
        if spec.get("op") != "flow":
            raise ValueError(f"op is {spec.get('op')!r}; accepted: 'flow'")
        self._set_attention({**_of_0_1(spec.get("attention", {})), **attention})
        self._flow = c.FlowProgram(
            struct_size=ctypes.sizeof(c.FlowProgram),
            attention=ctypes.pointer(self._attention._op),
            select=self._select(spec.get("select", {})),
            summary=_word(spec.get("summary")),
        )
        self._set("fields", "field_count", c.FlowField, map(self._field, spec.get("fields", ())))
        constants = map(self._constant, spec.get("constants", ()))
        self._set("constants", "constant_count", c.FlowConstant, constants)
        for program in ("cache", "index"):
            ops = map(self._op, spec.get(program, ()))
            self._set(program, f"{program}_count", c.FlowOp, ops)
        self._set("layers_skip", "layers_skip_count", c_int64, spec.get("layers_skip", ()))
        self._layout = self._describe()

    def _set_attention(self, attributes: dict) -> None:
        labels = {"attn_mask", "name", "purpose", "layers"}
        given = {name: value for name, value in attributes.items() if name not in labels}
        needed = ("num_heads", "head_dim", "T1")
        _known("attention", given, *sorted(_ATTENTION_ATTRIBUTES), needed=needed)
        given = {"num_kv_heads": given.get("num_heads"), "cache_mode": 1, **given}
        self._attention = FlowStep.__new__(FlowStep)
        types = {"dynamic_batching": 1, **given}
        self._attention._op = self._attention._make_op(types.pop("T1"), types)

    def _set(self, member: str, count: str, kind: type, items: object) -> None:
        array = list(items)
        setattr(self._flow, member, (kind * len(array))(*array))
        setattr(self._flow, count, len(array))

    def _dim(self, dim: int | str) -> int:
        """A number, or "head_dim", "page_size/16" and the like."""
        op = self._attention._op
        alone = self._flow.select.scope == b"query_head"
        sizes = {
            "head_dim": op.head_dim,
            "value_head_dim": op.value_head_dim if op.value_differs else op.head_dim,
            "page_size": op.page_size,
            "group": 1 if alone else op.num_heads // max(op.num_kv_heads, 1),
        }
        if isinstance(dim, int):
            return dim
        word, _, divisor = str(dim).partition("/")
        by = int(divisor or 1) if divisor.isdecimal() or not divisor else 0
        if word not in sizes or by < 1 or sizes[word] % by != 0:
            raise ValueError(f"dim {dim!r}; accepted: a number, {', '.join(sizes)}, or one by n")
        return sizes[word] // by

    def _field(self, given: dict) -> c.FlowField:
        _known("fields", given, "name", "shape", "dtype", needed=("name", "shape"))
        rows, columns = map(self._dim, given["shape"])
        dtype = _dtype_named(given.get("dtype", self._attention._types["T1"]))
        return c.FlowField(
            given["name"].encode(), rows, columns, c.DLDataType(dtype.code, dtype.bits, 1)
        )

    def _constant(self, given: dict) -> c.FlowConstant:
        _known("constants", given, *(known := ("name", "shape", "values")), needed=known)
        shape = [1, *map(self._dim, given["shape"])][-3:]
        values = np.broadcast_to(np.asarray(given["values"], np.float32), int(np.prod(shape)))
        return c.FlowConstant(given["name"].encode(), *shape, (c_float * values.size)(*values))

    def _op(self, given: dict) -> c.FlowOp:
        numbers = ("alpha", "beta", "scale", "dim", "group", "start", "end", "shape")
        _known("op", given, "op", "inputs", "output", *numbers, needed=("op",))
        _known(given["op"], given, *given, needed=_FLOW_REQUIRED.get(given["op"], ()))
        alpha, beta = _FLOW_DEFAULTS.get(given["op"], (0, 1))
        dims = given.get("dim", 0)
        names = [name.encode() for name in given.get("inputs", ())]
        if len(names) > 2:
            raise ValueError(f"{given['op']}: {len(names)} inputs; accepted: at most 2")
        rows, columns = map(self._dim, given.get("shape", (0, 0)))
        return c.FlowOp(
            op=given["op"].encode(),
            inputs=(c_char_p * 2)(*names),
            output=_word(given.get("output")),
            alpha=given.get("alpha", alpha),
            beta=given.get("beta", beta),
            scale=given.get("scale", 1),
            dims=sum(1 << dim for dim in {*(dims if isinstance(dims, list) else [dims])}),
            rows=rows,
            columns=columns,
            **{name: self._dim(given.get(name, 0)) for name in ("group", "start", "end")},
        )

    @staticmethod
    def _select(given: dict) -> c.FlowSelect:
        counts = ("topk_val", "reserved_bos", "reserved_eos", "cap", "dense_below")
        _known("select", given, *counts, "topk_ratio", "order", "scope")
        try:
            ratio = Fraction(given.get("topk_ratio", 0))
        except (TypeError, ValueError, ZeroDivisionError):
            words = f"topk_ratio {given['topk_ratio']!r}; accepted: '1/16' and the like, 0, 1"
            raise ValueError(words) from None
        values = {"topk_val": 30, "reserved_bos": 1, "reserved_eos": 1}
        values |= {name: given[name] for name in counts if name in given}
        if values["topk_val"] == "all":
            values["topk_val"] = _FLOW_ALL
        return c.FlowSelect(
            ratio_numerator=ratio.numerator,
            ratio_denominator=ratio.denominator,
            order=_word(given.get("order")),
            scope=_word(given.get("scope")),
            **values,
        )

    def _describe(self) -> c.FlowLayout:
        layout, error = c.FlowLayout(struct_size=ctypes.sizeof(c.FlowLayout)), c.Error()
        _check(
            c.library.kvmill_flow_describe(byref(self._flow), byref(layout), byref(error)), error
        )
        return layout

    @property
    def token_ratio(self) -> Fraction:
        """Elements of K, V and fields, of those of K."""
        ratio = self._layout.ratio_elements
        return Fraction(ratio.numerator, ratio.denominator)

    @property
    def token_ratio_bytes(self) -> Fraction:
        """Bytes of K, V and fields, of those of K."""
        ratio = self._layout.ratio_bytes
        return Fraction(ratio.numerator, ratio.denominator)

    def fields(self, pages: int) -> dict[str, np.ndarray]:
        """New fields of so many pages, by their names: zeros; bfloat16 as uint16."""
        numpy = {(2, 32): np.float32, (2, 16): np.float16, (4, 16): np.uint16}
        return {
            field.name.decode(): np.zeros(
                (pages, self._layout.kv_heads, field.rows, field.columns),
                numpy[field.dtype.code, field.dtype.bits],
            )
            for field in self._flow.fields[: self._flow.field_count]
        }

    def plan(
        self,
        step: str,
        *,
        batch: int = 1,
        pages: int = 0,
        cache_pages: int = 0,
        packs: Sequence[Pack] = (),
        portable: bool = False,
        isa: str | None = None,
        threads: int = 1,
    ) -> FlowStep:
        """A plan of a step: "append", "index", "attend" or "decode".

        batch, pages: most requests of a call, and most pages of a request; cache_pages: most pages
        of a cache, which append looks at.  Others as of MultiHeadCacheAttention.
        """
        if step not in _FLOW_STEPS:
            raise ValueError(f"step {step!r}; accepted: {', '.join(_FLOW_STEPS)}")
        limits = c.FlowLimits(ctypes.sizeof(c.FlowLimits), batch, pages, cache_pages)
        options = _plan_options(tuple(packs), portable, isa, threads)
        return FlowStep(self, step, limits, options, tuple(packs))


class FlowStep(_Attending):
    """A plan of a step of a sparse flow, made by Flow.plan; it may run in any number of threads at
    a time, on different caches.  What the step takes and gives is said in kvmill.h, "Sparse flows".
    """

    def __init__(
        self,
        flow: Flow,
        step: str,
        limits: c.FlowLimits,
        options: c.PlanOptions,
        packs: tuple[Pack, ...],
    ) -> None:
        self._op, self._types = flow._attention._op, flow._attention._types
        self._flow, self._packs, self._step = flow, packs, step
        fields = {
            field.name.decode(): field.dtype
            for field in flow._flow.fields[: flow._flow.field_count]
        }
        self._names = (*_ATTENTION_TENSORS, *_FLOW_TENSORS, *fields)
        self._field_types = {
            name: next(n for n, d in _DTYPES.items() if (d.code, d.bits) == (t.code, t.bits))
            for name, t in fields.items()
        }
        results = ("attn_output", "lse") if self._op.partial else ("attn_output",)
        self._outputs = {"append": (), "index": ("sel_indptr", "sel")}.get(step, results)
        ops = flow._flow.index[: flow._flow.index_count]
        saved = (op.output.decode() for op in ops if op.op == b"Save")
        fields_written = {"append": fields, "attend": ()}.get(step, saved)
        self._written = (*_names_of("inout", step), *_names_of("out", step), *fields_written)
        self._handle = _make_plan(self, f"kvmill_plan_flow_{step}", flow._flow, limits, options)

    def _declared(self, name: str) -> _DType | None:
        field = self._field_types.get(name)
        return super()._declared(name) if field is None else _dtype_named(field)

    def prepare(self, **tensors: Operand) -> Call:
        """Bind the plan to arrays, outputs included, for runs without the cost of Python's side.

        Numbers given otherwise than as arrays are copied here.
        """
        return super().prepare(**self._with_numbers(tensors))

    @staticmethod
    def _with_numbers(tensors: dict) -> dict:
        """Sequences as arrays of the integers that the library wants."""
        given = {
            name: array
            for name, array in tensors.items()
            if name in _FLOW_TENSORS and array is not None and not isinstance(array, np.ndarray)
        }
        for name, array in given.items():
            if np.size(array) > 0 and np.asarray(array).dtype.kind not in "iu":
                raise TypeError(f"{name} has type {np.asarray(array).dtype}; accepted: integers")
        return tensors | {
            name: np.asarray(array, _FLOW_TYPES[name])
            for name, array in given.items()
        }

    def run(
        self, *, executor: Executor | None = None, **tensors: Operand
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray] | None:
        """Run on arrays.  append updates caches and fields in place and returns None; index returns
        (sel_indptr, sel); attend and decode attn_output, with partial (attn_output, lse).

        Tensors are those of kvmill.h, fields by their names in the flow; seq_len, page_indptr,
        slot_mapping and sel_indptr are int64, page_ids, sel and block_ids int32, or sequences.
        cache and activations are as of MultiHeadCacheAttention.  Of decode sel_indptr, sel and
        block_ids, of index block_ids are outputs if they are given.

        Raises KvmillError (then nothing has been written), TypeError and ValueError.
        """
        outputs = self._run(self._with_numbers(tensors), executor)
        if self._step == "append":
            return None
        if self._step == "index":
            return outputs[0], outputs[1][: outputs[0][-1]]
        return outputs

    def _new_output(self, name: str, tensors: dict) -> np.ndarray:
        if name not in _FLOW_TENSORS:
            return super()._new_output(name, tensors)
        scope = self._flow._flow.select.scope
        lists = {b"request": 1, b"query_head": self._op.num_heads}.get(
            scope, self._flow._layout.kv_heads
        )
        if name == "sel_indptr":
            return np.zeros(_required(tensors, "seq_len", 1).size * lists + 1, np.int64)
        return np.zeros(_required(tensors, "page_ids", 1).size * lists, np.int32)


def merge_partials(
    outputs: Sequence[np.ndarray], lses: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Merge partial results of the same queries over disjoint keys.

    outputs: float32 arrays [..., dim]; lses: float32 arrays of the same shape without the last dim,
    as many.  Returns new arrays, output and lse.  Raises ValueError where shapes disagree.
    """
    outputs = [np.ascontiguousarray(output, np.float32) for output in outputs]
    lses = [np.ascontiguousarray(lse, np.float32) for lse in lses]
    rows = {output.shape[:-1] for output in outputs} | {lse.shape for lse in lses}
    dims = {output.shape[-1:] for output in outputs}
    if len(rows) != 1 or len(dims) != 1 or len(outputs) != len(lses):
        raise ValueError(
            f"outputs of {[a.shape for a in outputs]} and lses of {[a.shape for a in lses]}; "
            "accepted: as many, of equal shapes but for the last dim"
        )
    output, lse = np.empty_like(outputs[0]), np.empty_like(lses[0])
    pointers = c_void_p * len(outputs)
    c.library.kvmill_merge_partials(
        len(outputs),
        pointers(*(array.ctypes.data for array in outputs)),
        pointers(*(array.ctypes.data for array in lses)),
        lse.size,
        output.shape[-1],
        output.ctypes.data,
        lse.ctypes.data,
    )
    return output, lse
