"""Functions that fill C structs by member names, and refuse values that a member cannot hold.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Sequence
from ctypes import Structure, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t
from typing import Any, TypeVar

from . import c
from .arguments import shown
from .arrays import dtype_named

AnyStruct = TypeVar("AnyStruct", bound=Structure)


def text(name: str, value: object) -> bytes:
    """Return a text as C expects it.  Raises TypeError and ValueError."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {shown(value)}; accepted: a text")
    if "\0" in value:
        raise ValueError(f"{name} is {shown(value)}; accepted: a text without NUL")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} is {shown(value)}; accepted: a text that UTF-8 has") from None


def integer(name: str, value: Any, kind: Any = c_int64) -> int:
    """Return an integer that the type can hold.  Raises TypeError and ValueError."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {shown(value)}; accepted: an integer") from None
    if kind(number).value != number:
        raise ValueError(f"{name} is {shown(value)}; accepted: integers of {8 * ctypes.sizeof(kind)} bits")
    return number


def _number(name: str, value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{name} is {shown(value)}; accepted: a number")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} is {shown(value)}; accepted: a number") from None


def _type(name: str, value: object) -> c.DLDataType:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {shown(value)}; accepted: the name of an element type")
    dtype = dtype_named(value, name)
    return c.DLDataType(dtype.code, dtype.bits, 1)


def integers(name: str, value: Any) -> Any:
    """Return an array of int64.  Raises TypeError and ValueError."""
    try:
        items = [integer(name, item) for item in value]
    except TypeError:
        raise TypeError(f"{name} is {shown(value)}; accepted: a sequence of integers") from None
    return (c_int64 * len(items))(*items)


def _dims(name: str, value: Any) -> c.Dims:
    items = integers(name, value)
    return c.Dims(items, len(items))


def _integer_of(kind: Any) -> Callable[[str, Any], int]:
    return lambda name, value: integer(name, value, kind)


# Members of other types are set by the package itself, without a conversion.
_WRITERS: dict[Any, Callable[[str, Any], Any]] = {
    c_char_p: text,
    c_double: _number,
    c.DLDataType: _type,
    c.Dims: _dims,
    **{kind: _integer_of(kind) for kind in (c_int, c_int32, c_int64, c_size_t, ctypes.c_uint32)},
}


def set_members(struct: Structure, **members: Any) -> None:
    """Set members of a struct, except those that are None.  Element types are given by name.

    Raises TypeError and ValueError for values that a member cannot hold."""
    kinds: dict[str, Any] = {name: kind for name, kind, *_ in type(struct)._fields_}
    for name, value in members.items():
        if value is not None:
            writer = _WRITERS.get(kinds[name])
            setattr(struct, name, value if writer is None else writer(name, value))


def make_struct(kind: type[AnyStruct], **members: Any) -> AnyStruct:
    """Return a new struct.  struct_size is set if the struct has it; members that are not given are
    0."""
    struct = kind()
    if kind._fields_[0][0] == "struct_size":
        members["struct_size"] = ctypes.sizeof(kind)
    set_members(struct, **members)
    return struct


def items_of(dims: c.Dims) -> Sequence[int]:
    return list(dims.items[: dims.count])
