"""Element types, and conversion of arrays to the tensors that the library accepts.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import importlib
import math
import operator
from collections.abc import Collection, Mapping, Sequence
from ctypes import POINTER, c_char_p, c_int64, c_void_p, py_object
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np

from . import c
from .arguments import items, shown
from .tables import TYPES

Shape = tuple[int | None, ...]
Prototype = np.ndarray | Shape
Operand = np.ndarray | Sequence[int] | int | None


@dataclass(frozen=True)
class DType:
    name: str
    code: int
    bits: int

    @property
    def itemsize(self) -> int:
        """The size of an element in a NumPy array, in bytes."""
        return max(self.bits // 8, 1)


DTYPES = {name: DType(name, code, bits) for name, (code, bits, _) in TYPES.items()}

# Other names for the same types, in ONNX, NumPy and ml_dtypes.
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


def _dtype_or_none(name: object) -> DType | None:
    return DTYPES.get(_ALIASES.get(name, name)) if isinstance(name, str) else None


def dtype_named(name: str, argument: str = "dtype") -> DType:
    """Return the type with this name.  argument: the name of the argument, for the message.  Raises
    TypeError."""
    dtype = _dtype_or_none(name)
    if dtype is None:
        raise TypeError(f"{argument} is {shown(name)}; accepted: {', '.join(DTYPES)}")
    return dtype


@cache
def _dtype_of_code(code: int, bits: int) -> DType | None:
    return next((d for d in DTYPES.values() if (d.code, d.bits) == (code, bits)), None)


def dtype_of_c(dtype: c.DLDataType) -> DType | None:
    """Return the element type of a DLPack type, or None if Python has no name for it."""
    return _dtype_of_code(dtype.code, dtype.bits)


def array_type_of(dtype: c.DLDataType) -> np.dtype:
    """Return the type of arrays with such elements, from NumPy or ml_dtypes."""
    own = numpy_type(dtype_of_c(dtype))
    return _ml_dtype(dtype.code, dtype.bits) if own is None else own


@cache
def _dtype_known(own: np.dtype, declared: DType | None) -> DType | None:
    if not own.isnative:
        return None
    if declared and own.kind == "u" and own.itemsize == declared.itemsize:
        return declared
    return _dtype_or_none(own.name)


def numpy_type(dtype: DType | None) -> np.dtype | None:
    """Return NumPy's own type, or None if NumPy does not have the type."""
    try:
        return None if dtype is None else np.dtype(dtype.name)
    except TypeError:
        return None


def raw_type_of(dtype: c.DLDataType) -> np.dtype:
    """NumPy's own type; unsigned integers of the same size for one that NumPy lacks, even if
    ml_dtypes has it."""
    own, size = numpy_type(dtype_of_c(dtype)), max(dtype.bits // 8, 1)
    return np.dtype(f"u{size}") if own is None or own.isbuiltin != 1 else own


def dtype_of(array: np.ndarray, declared: DType | None, name: str = "array") -> DType:
    """Return the element type of an array: its own, or `declared` if the array holds the raw bits
    of that type.  Raises TypeError."""
    dtype = _dtype_known(array.dtype, declared)
    if dtype is None:
        accepted = f"{', '.join(DTYPES)}, in the machine's byte order"
        raise TypeError(f"{name} has elements of {array.dtype!r}; accepted: {accepted}")
    return dtype


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = c_void_p, [py_object, c_char_p]


# NumPy's array struct stores its data address right after the header that every object has.
_ADDRESS_AT = object.__basicsize__
_pointer_at = c_void_p.from_address


def address_of(array: np.ndarray) -> int:
    """Return the address of the first element.  It takes a fifth of the time of
    array.ctypes.data."""
    return _pointer_at(id(array) + _ADDRESS_AT).value or 0


def put_addresses(arrays: Mapping[Any, np.ndarray], structs: Mapping[Any, c.DLTensor]) -> None:
    """Store the address of each array in the struct with the same key."""
    for key, array in arrays.items():
        structs[key].data = _pointer_at(id(array) + _ADDRESS_AT).value


# ---- Arrays of others ----


def as_array(given: object, name: str = "array") -> np.ndarray:
    """Return `given` as a NumPy array.  Tensors of types that NumPy lacks, such as PyTorch's
    bfloat16, are converted through DLPack to the ml_dtypes type, without a copy.  Raises
    TypeError."""
    if isinstance(given, np.ndarray):
        return given
    if given is None:
        raise TypeError(f"{name} is None; accepted: an array")
    try:
        array = np.asarray(given)
        nothing = array.ndim == 0 and array.item() is given  # NumPy wrapped the object instead of converting it
        if not (nothing and hasattr(given, "__dlpack__")):
            return array
    except (TypeError, ValueError) as error:
        if not hasattr(given, "__dlpack__"):
            accepted = "an array, or what NumPy makes one of"
            raise TypeError(f"{name} is {shown(given)}; accepted: {accepted}") from error
    shared = _Shared(given, name)
    return np.asarray(shared).view(_ml_dtype(*shared.dtype, name))


# Devices other than the CPU, by their DLPack numbers.
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "CUDA", 14: "oneAPI", 15: "WebGPU"}


def _require_cpu(given: Any, name: str) -> None:
    device = int(given.__dlpack_device__()[0])
    if device != c.CPU:
        kind = type(given)
        where = f"DLPack device {device} ({_DEVICES.get(device, 'another')})"
        raise TypeError(
            f"{name} is a {kind.__module__}.{kind.__qualname__} on {where}; accepted: {c.CPU}, the CPU"
        )


class _Shared:
    """Exposes the memory of a DLPack tensor as unsigned integers.  The capsule keeps the memory
    alive."""

    def __init__(self, given: Any, name: str) -> None:
        _require_cpu(given, name)
        self._capsule = given.__dlpack__()
        tensor = c.DLTensor.from_address(_capsule_pointer(self._capsule, b"dltensor"))
        self.dtype = tensor.dtype.code, tensor.dtype.bits
        size, ndim = tensor.dtype.bits // 8, tensor.ndim
        strides = tensor.strides[:ndim] if tensor.strides else None
        self.__array_interface__ = {
            "version": 3,
            "typestr": np.dtype(f"u{size}").str,
            "shape": tuple(tensor.shape[:ndim]),
            "strides": None if strides is None else tuple(n * size for n in strides),
            "data": ((tensor.data or 0) + tensor.byte_offset, False),
        }


def _ml_dtype(code: int, bits: int, array: str = "array") -> np.dtype:
    """Return the ml_dtypes type for a DLPack type."""
    names = [d.name for d in DTYPES.values() if (d.code, d.bits) == (code, bits)]
    names += [alias for alias, own in _ALIASES.items() if own in names]
    try:
        ml_dtypes = importlib.import_module("ml_dtypes")
    except ImportError as error:
        missing = "NumPy's own types, and with the package ml_dtypes bfloat16, float8 and float4"
        raise TypeError(f"{array} has elements of {shown(names[:1])}; accepted: {missing}") from error
    for name in names:
        if hasattr(ml_dtypes, name):
            return cast("np.dtype[Any]", np.dtype(getattr(ml_dtypes, name)))
    type_of_dlpack = f"elements of DLPack's type {code} with {bits} bits"
    raise TypeError(f"{array} has {type_of_dlpack}; accepted: {', '.join(DTYPES)}")


def pack_nibbles(array: np.ndarray) -> np.ndarray:
    """Pack 4-bit elements, one per byte, two per byte: the first in the low nibble.

    array: any shape, itemsize 1; the high nibble of each byte is ignored.  Returns a new uint8
    array of ceil(array.size / 2) bytes, row-major without gaps; an unused last nibble is 0.
    """
    array = as_array(array)
    if array.itemsize != 1:
        raise TypeError(f"array has elements of {array.dtype!r}; accepted: elements of one byte")
    nibbles = np.zeros(array.size + array.size % 2, np.uint8)
    nibbles[: array.size] = np.ascontiguousarray(array).view(np.uint8).reshape(-1) & 0x0F
    return nibbles[0::2] | nibbles[1::2] << 4


def _dims_of(shape: Any, elements: int) -> tuple[int, ...]:
    """Return the dims of a shape with at most `elements` elements.  Raises TypeError and
    ValueError."""
    accepted = f"dims of at most {elements} elements"
    try:
        dims = tuple(operator.index(dim) for dim in items("shape", shape, accepted))
    except TypeError:
        raise TypeError(f"shape is {shown(shape)}; accepted: {accepted}") from None
    if min(dims, default=0) < 0 or math.prod(dims) > elements:
        raise ValueError(f"shape is {shown(dims)}; accepted: {accepted}")
    return dims


def _type_of_bytes(dtype: Any) -> np.dtype[Any]:
    accepted = "accepted: a NumPy type of 1 byte"
    try:
        type_: np.dtype[Any] = np.dtype(dtype)
    except (TypeError, ValueError, KeyError, SyntaxError) as error:
        raise TypeError(f"dtype is {shown(dtype)}; {accepted}") from error
    if type_.itemsize != 1 or type_.hasobject:
        raise TypeError(f"dtype is {type_}; {accepted}")
    return type_


def unpack_nibbles(packed: np.ndarray, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Undo pack_nibbles.  Returns a new array of the shape and the 1-byte dtype, high nibbles 0.

    Raises TypeError and ValueError."""
    packed = as_array(packed, "packed")
    if packed.dtype != np.uint8 or packed.ndim != 1:
        raise TypeError(f"packed has type {packed.dtype} and rank {packed.ndim}; accepted: uint8, rank 1")
    of_bytes = _type_of_bytes(dtype)
    nibbles = np.empty(2 * packed.size, np.uint8)
    nibbles[0::2] = packed & 0x0F
    nibbles[1::2] = packed >> 4
    dims = _dims_of(shape, nibbles.size)
    return nibbles[: math.prod(dims)].reshape(dims).view(of_bytes)


def make_tensor(
    dtype: DType,
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


def _strides_of(array: np.ndarray, name: str) -> list[int] | None:
    """Return the strides in elements, or None if the array is row-major without gaps."""
    if array.flags.c_contiguous:
        return None
    if any(stride % array.itemsize for stride in array.strides):
        raise ValueError(
            f"{name} has strides of {array.strides} bytes; accepted: multiples of an element's size, "
            f"{array.itemsize}"
        )
    return [stride // array.itemsize for stride in array.strides]


def array_tensor(
    array: np.ndarray, declared: DType | None = None, name: str = "array"
) -> c.DLTensor:
    dtype = dtype_of(array, declared, name)
    return make_tensor(dtype, array.shape, array.ctypes.data, _strides_of(array, name))


def is_staged(array: np.ndarray, dtype: DType) -> bool:
    """Whether NumPy stores elements of this type differently from the library."""
    return dtype.bits == 4 or array.dtype.hasobject


def prototype_tensor(
    prototype: Prototype, declared: DType | None, open_dims: Collection[int], name: str
) -> c.DLTensor:
    if isinstance(prototype, tuple):
        if declared is None:
            given = f"{name} is the shape {shown(prototype)}, and dtype is None"
            raise TypeError(f"{given}; accepted: a shape and a dtype, or an array")
        dtype, shape, strides = declared, prototype, None
    else:
        array = as_array(prototype, name)
        dtype, shape = dtype_of(array, declared, name), array.shape
        strides = None if is_staged(array, dtype) else _strides_of(array, name)
    dims = [c.DYNAMIC if dim is None or d in open_dims else dim for d, dim in enumerate(shape)]
    return make_tensor(dtype, dims, strides=strides)


def reference(tensor: c.DLTensor | None) -> Any:
    return None if tensor is None else ctypes.pointer(tensor)


def references(tensors: Sequence[c.DLTensor]) -> Any:
    return (POINTER(c.DLTensor) * len(tensors))(*map(reference, tensors))


def require_writable(array: np.ndarray, name: str = "present") -> None:
    if not array.flags.writeable:
        raise ValueError(f"{name} is read-only; accepted: a writable array")


def written_array(given: object, name: str) -> np.ndarray:
    """Return `given`, which is going to be written, as an array that shares its memory.

    Raises ValueError if NumPy would copy it, and TypeError if it is not an array."""
    if isinstance(given, np.ndarray):
        array = given
    elif hasattr(given, "__array__") or hasattr(given, "__array_interface__"):
        array = as_array(given, name)
        if address_of(array) != address_of(as_array(given, name)):
            raise ValueError(
                f"{name} is a {type(given).__name__}, of which NumPy gets a copy that would be written "
                "in its place; accepted: an array, or an object that shares its memory"
            )
    else:
        raise TypeError(f"{name} is a {type(given).__name__}; accepted: an array to write to")
    require_writable(array, name)
    return array
