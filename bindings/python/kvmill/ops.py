"""Structs of ops, filled by the names of their attributes.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Structure, c_int64

from . import c
from .arrays import dtype_named


def _attribute(kind: type, value: object) -> object:
    """An attribute as its C type; element types and words are given by name."""
    if kind is c.DLDataType:
        dtype = dtype_named(value)
        return c.DLDataType(dtype.code, dtype.bits, 1)
    if kind is c.Dims:
        return c.Dims((c_int64 * len(value))(*value), len(value))
    return value.encode() if isinstance(value, str) else value


def set_members(op: Structure, **members: object) -> None:
    """What is None is left as it is."""
    kinds = dict(type(op)._fields_)
    for name, value in members.items():
        if value is not None:
            setattr(op, name, _attribute(kinds[name], value))


def items_of(dims: c.Dims) -> Sequence[int]:
    return dims.items[: dims.count]
