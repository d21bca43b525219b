"""Python binding of libkvmill: kernels for the key/value cache of language models, on NumPy arrays.

    plan = kvmill.TensorScatter(past, update, write_indices, packs=[kvmill.Pack(path)])
    present = plan.run(past, update, write_indices)         # a new array
    plan.run(past, update, write_indices, present=past)     # in place

Plan once, run many: a plan is immutable and may run in any number of threads at a time; the GIL is
released while the library works.  The meaning of the operation is that of kvmill.h.

The library is the file named by the environment variable KVMILL_LIBRARY, else the one that the
system's loader finds.  Importing this module raises OSError when there is none.

Element types go by their ONNX or NumPy names: bool, (u)int8 to (u)int64, float16, float32, float64,
bfloat16, complex64, complex128, the float8 types, int4, uint4, float4e2m1, string.  ml_dtypes is
not needed: only arrays of its types are.  Three layouts deserve a word:

* 4-bit types.  NumPy holds one element per byte, libkvmill two.  Arrays are packed before a run and
  unpacked behind it (pack_nibbles, unpack_nibbles); this costs more than the run itself.
* Strings are object arrays.  libkvmill moves handles: indices into a table of the objects.
* Raw bits.  With dtype given, arrays of an unsigned integer of the same size are accepted too, for
  4-bit types uint8 with one element per byte.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import os
import re
import weakref
from collections.abc import Collection, Sequence
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = [
    "Call",
    "KvmillError",
    "Pack",
    "TensorScatter",
    "pack_nibbles",
    "unpack_nibbles",
    "version",
]

Shape = tuple[int | None, ...]
Prototype = np.ndarray | Shape


# ---- What kvmill.h and dlpack.h declare ----


class _DLDevice(Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class _DLDataType(Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _DLTensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", _DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", _DLDataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Error(Structure):
    _fields_ = [("message", c_char * 256)]


class _PackHead(Structure):
    _fields_ = [("abi", ctypes.c_uint32), ("count", ctypes.c_uint32)]


class _PlanOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("packs", POINTER(c_void_p)),
        ("pack_count", c_size_t),
        ("isa", c_char_p),
        ("portable", c_int),
    ]


class _TensorScatterOp(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("axis", c_int64),
        ("mode", c_char_p),
        ("past_cache", POINTER(_DLTensor)),
        ("update", POINTER(_DLTensor)),
        ("write_indices", POINTER(_DLTensor)),
        ("present_cache", POINTER(_DLTensor)),
    ]


class _Call(Structure):
    _fields_ = [("opaque", ctypes.c_uint64 * 48)]


_CPU = 1
_DYNAMIC = -1
_SONAME = "libkvmill.so.0"

_Tensors = POINTER(_DLTensor) * 4


def _load_library() -> ctypes.CDLL:
    library = ctypes.CDLL(os.environ.get("KVMILL_LIBRARY") or _SONAME)
    signatures = {
        "kvmill_version": (c_char_p, []),
        "kvmill_status_name": (c_char_p, [c_int]),
        "kvmill_plan_tensor_scatter": (
            c_int,
            [POINTER(_TensorScatterOp), POINTER(_PlanOptions), POINTER(c_void_p), POINTER(_Error)],
        ),
        "kvmill_plan_destroy": (None, [c_void_p]),
        "kvmill_plan_describe": (c_size_t, [c_void_p, c_char_p, c_size_t]),
        "kvmill_run": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
        "kvmill_run_parallel": (c_int, [c_void_p] * 6),
        "kvmill_begin": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
        "kvmill_parts": (c_int64, [c_void_p]),
        "kvmill_part": (None, [c_void_p, c_int64]),
        "kvmill_merge": (None, [c_void_p]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_library = _load_library()


def version() -> str:
    """Version of the library in use."""
    return _library.kvmill_version().decode()


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


def _check(status: int, error: _Error) -> None:
    if status != 0:
        name = _library.kvmill_status_name(status).decode()
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


_DTYPES = {
    name: _DType(name, code, bits)
    for name, code, bits in [
        ("int8", 0, 8),
        ("int16", 0, 16),
        ("int32", 0, 32),
        ("int64", 0, 64),
        ("uint8", 1, 8),
        ("uint16", 1, 16),
        ("uint32", 1, 32),
        ("uint64", 1, 64),
        ("float16", 2, 16),
        ("float32", 2, 32),
        ("float64", 2, 64),
        ("string", 3, 64),
        ("bfloat16", 4, 16),
        ("complex64", 5, 64),
        ("complex128", 5, 128),
        ("bool", 6, 8),
        ("float8e4m3fn", 10, 8),
        ("float8e4m3fnuz", 11, 8),
        ("float8e5m2", 12, 8),
        ("float8e5m2fnuz", 13, 8),
        ("float8e8m0", 14, 8),
        ("int4", 0, 4),
        ("uint4", 1, 4),
        ("float4e2m1", 17, 4),
    ]
}

# Names of ml_dtypes, NumPy and ONNX for the same types.
_ALIASES = {
    "float": "float32",
    "double": "float64",
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
) -> _DLTensor:
    vector = c_int64 * len(shape)
    return _DLTensor(
        data=data,
        device=_DLDevice(_CPU, 0),
        ndim=len(shape),
        dtype=_DLDataType(dtype.code, dtype.bits, 1),
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


def _array_tensor(array: np.ndarray, declared: _DType | None = None) -> _DLTensor:
    dtype = _dtype_of(array, declared)
    return _tensor(dtype, array.shape, array.ctypes.data, _strides_of(array))


def _is_staged(array: np.ndarray, dtype: _DType) -> bool:
    """Whether NumPy's layout of the type is not the library's."""
    return dtype.bits == 4 or array.dtype.hasobject


def _prototype_tensor(
    prototype: Prototype, declared: _DType | None, open_dims: Collection[int]
) -> _DLTensor:
    if isinstance(prototype, tuple):
        if declared is None:
            raise TypeError("a shape was given without dtype; accepted: both, or an array")
        dtype, shape, strides = declared, prototype, None
    else:
        array = np.asarray(prototype)
        dtype, shape = _dtype_of(array, declared), array.shape
        strides = None if _is_staged(array, dtype) else _strides_of(array)
    dims = [_DYNAMIC if dim is None or d in open_dims else dim for d, dim in enumerate(shape)]
    return _tensor(dtype, dims, strides=strides)


def _reference(tensor: _DLTensor | None):
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
            self._head = _PackHead.in_dll(library, f"kvmill_pack_{self.name}")
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)} is not a pack: {error}") from error

    @property
    def kernel_count(self) -> int:
        """Number of kernels in the pack."""
        return self._head.count


def _plan_options(packs: Sequence[Pack], portable: bool, isa: str | None) -> _PlanOptions:
    pointers = (c_void_p * len(packs))(*(ctypes.addressof(pack._head) for pack in packs))
    return _PlanOptions(
        struct_size=ctypes.sizeof(_PlanOptions),
        packs=pointers,
        pack_count=len(packs),
        isa=isa.encode() if isa else None,
        portable=portable,
    )


# ---- Plans ----


class Call:
    """A plan bound to arrays: what is to be repeated with no more cost than in C.

    Made by TensorScatter.prepare.  Keeps the plan and the arrays alive and reads their current
    contents each time.  Either run(), or, on threads of the caller's own:

        parts = call.begin()                # checks everything
        call.part(i)                        # once for each i in range(parts), any thread, any order
        call.merge()                        # when all are done

    One thread at a time may run() or begin(); part() may be called by many.
    """

    def __init__(
        self, plan: TensorScatter, tensors: Sequence[_DLTensor | None], arrays: tuple
    ) -> None:
        self._owners = plan, tensors, arrays
        self._tensors = _Tensors(*map(_reference, tensors))
        self._error = _Error()
        self._call = _Call()
        self._run_arguments = plan._handle, byref(self._tensors), None, byref(self._error)

    def run(self) -> None:
        """Run on the calling thread.  Raises KvmillError; then nothing has been written."""
        _check(_library.kvmill_run(*self._run_arguments), self._error)

    def run_parallel(self, parallel_for: c_void_p, data: c_void_p | None = None) -> None:
        """Run on a parallel loop in C, a kvmill_parallel_for (kvmill.h); data is handed to it.

        Raises KvmillError; then nothing has been written."""
        plan, tensors, workspace, error = self._run_arguments
        _check(
            _library.kvmill_run_parallel(plan, tensors, workspace, parallel_for, data, error),
            self._error,
        )

    def begin(self) -> int:
        """Start a run in parts; returns their number.  Raises KvmillError."""
        _check(_library.kvmill_begin(byref(self._call), *self._run_arguments), self._error)
        return _library.kvmill_parts(byref(self._call))

    def part(self, index: int) -> None:
        """Run one part; index must be in [0, parts), which is not checked."""
        _library.kvmill_part(byref(self._call), index)

    def merge(self) -> None:
        """Finish a run in parts, when all of them are done."""
        _library.kvmill_merge(byref(self._call))


class TensorScatter:
    """A plan of ONNX TensorScatter (opset 24): present = past with the rows of update written along
    `axis`, from slot write_indices[b] of batch entry b on; mode "circular" wraps around.

    past, update, write_indices: prototypes, arrays whose data is not looked at, or tuples with the
    shape, in which None is a dim known only to a run; a tuple needs dtype.  past: [batch, ...],
    rank >= 2; update: the same but for dim `axis`, which may be smaller; write_indices: int64
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
        op = _TensorScatterOp(
            ctypes.sizeof(_TensorScatterOp), axis, mode.encode(), *map(_reference, tensors)
        )
        options = _plan_options(self._packs, portable, isa)
        error, handle = _Error(), c_void_p()
        status = _library.kvmill_plan_tensor_scatter(
            byref(op), byref(options), byref(handle), byref(error)
        )
        _check(status, error)
        self._handle = handle
        weakref.finalize(self, _library.kvmill_plan_destroy, handle)

    def _prototypes(
        self,
        past: Prototype,
        update: Prototype,
        write_indices: Prototype | None,
        axis: int,
        dynamic: Collection[str],
    ) -> list[_DLTensor | None]:
        rank = len(past) if isinstance(past, tuple) else np.ndim(past)
        dim_of = {"batch": 0, "capacity": axis % max(rank, 1), "rows": axis % max(rank, 1)}

        def tensor(prototype: Prototype, declared: _DType | None, *names: str) -> _DLTensor:
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
        size = _library.kvmill_plan_describe(self._handle, None, 0) + 1
        text = ctypes.create_string_buffer(size)
        _library.kvmill_plan_describe(self._handle, text, size)
        return text.value.decode()

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
        another array are refused, but for 4-bit types and strings, which are copied on the way.

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
        self, tensors: Sequence[_DLTensor], write_indices: np.ndarray | None, arrays: tuple
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


def _require_writable(present: np.ndarray) -> None:
    if not present.flags.writeable:
        raise ValueError("present is read-only; accepted: a writable array")
