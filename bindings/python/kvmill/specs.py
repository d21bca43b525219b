"""Functions that read texts with libkvmill_specs: flow files, regions of scatters, element types.

The library is next to libkvmill, and is loaded when a text is first read.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t
from functools import cache
from typing import Any

from . import c
from .arguments import items
from .errors import check
from .ops import text

_SONAME = "libkvmill_specs.so.1"
_TEXT = c_char_p, c_size_t


@cache
def _library() -> ctypes.CDLL:
    path = c.library_directory() / _SONAME
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise OSError(
            f"flow files and regions are read by {_SONAME}, which cannot be loaded: {error}; "
            "accepted: the one of this version of kvmill, next to libkvmill"
        ) from error
    flow, region = POINTER(c.FlowProgram), POINTER(c.Region)
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "kvmill_read_flow": (c_int, [c_char_p, *_TEXT, POINTER(flow), POINTER(c.Error)]),
        "kvmill_free_flow": (None, [flow]),
        "kvmill_read_region": (
            c_int,
            [*_TEXT, c_size_t, POINTER(c_char_p), c_size_t, POINTER(region), POINTER(c.Error)],
        ),
        "kvmill_free_region": (None, [region]),
        "kvmill_read_element_type": (c_int, [*_TEXT, POINTER(c.ElementType), POINTER(c.Error)]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _owned(pointer: Any, free: Any) -> Any:
    """Return the struct that `pointer` refers to.  It is freed together with the last Python object
    that refers to it."""
    struct = pointer.contents
    weakref.finalize(struct, free, pointer)
    return struct


def read_flow(name: str, source: bytes) -> c.FlowProgram:
    """Read the text of a flow file.  name: the file's name in messages."""
    library, error, flow = _library(), c.Error(), POINTER(c.FlowProgram)()
    called = name.encode(errors="replace")
    check(library.kvmill_read_flow(called, source, len(source), byref(flow), byref(error)), error)
    owned: c.FlowProgram = _owned(flow, library.kvmill_free_flow)
    return owned


def read_region(region: str, inputs: int, captures: Sequence[str]) -> c.Region:
    """Read the region of a scatter with `inputs` inputs.  captures: the types of the scalars from
    outside."""
    library, error, read = _library(), c.Error(), POINTER(c.Region)()
    source = text("region", region)
    captures = items("captures", captures, "element types")
    types = (c_char_p * len(captures))(*(text("captures", capture) for capture in captures))
    given = source, len(source), inputs, types, len(captures)
    check(library.kvmill_read_region(*given, byref(read), byref(error)), error)
    owned: c.Region = _owned(read, library.kvmill_free_region)
    return owned


def read_element_type(name: str, element: str) -> c.ElementType:
    """Read an element type of StableHLO, such as "!quant.uniform<i8:f32, 0.5:-3>".  name: the
    argument's name in messages."""
    library, error, read = _library(), c.Error(), c.ElementType()
    source = text(name, element)
    status = library.kvmill_read_element_type(source, len(source), byref(read), byref(error))
    check(status, error)
    return read
