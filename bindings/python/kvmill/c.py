"""Declarations of kvmill.h and dlpack.h: structs, and the library's functions.

Structs of ops come from tables.py, which is printed from their descriptions.  For the others,
_c_name_ is the name in C.  tests/python.test compares every field with the headers.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from ctypes import (
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_void_p,
)
from pathlib import Path
from typing import Any

from .tables import STRUCTS


class DLDevice(Structure):
    _c_name_ = "DLDevice"
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class DLDataType(Structure):
    _c_name_ = "DLDataType"
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(Structure):
    _c_name_ = "DLTensor"
    _fields_ = [
        ("data", c_void_p),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Error(Structure):
    _c_name_ = "kvmill_error"
    _fields_ = [("message", c_char * 512)]


class Pack(Structure):
    _c_name_ = "kvmill_pack"
    _fields_ = [
        ("abi", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
        ("name", c_char_p),
        ("kernels", c_void_p),
        ("manifest", c_char_p),
        ("measured_count", ctypes.c_uint32),
        ("measured", c_void_p),
    ]


class PlanOptions(Structure):
    _c_name_ = "kvmill_plan_options"
    _fields_ = [
        ("struct_size", c_size_t),
        ("packs", POINTER(c_void_p)),
        ("pack_count", c_size_t),
        ("isa", c_char_p),
        ("portable", c_int),
        ("threads", c_int),
        ("least_isa", c_char_p),
    ]


class Dims(Structure):
    _c_name_ = "kvmill_dims"
    _fields_ = [("items", POINTER(c_int64)), ("count", c_size_t)]


_KINDS: dict[str, Any] = {
    "size": c_size_t,
    "int32": c_int32,
    "int64": c_int64,
    "double": c_double,
    "type": DLDataType,
    "word": c_char_p,
    "dims": Dims,
    "tensor": POINTER(DLTensor),
    "pointer": c_void_p,
}


def _members(name: str, **kinds: Any) -> list[tuple[str, Any]]:
    """Return the members of a struct in the tables.  kinds: the ctypes types of members for which
    the tables do not determine it."""
    return [(member, kinds.get(member) or _KINDS[kind]) for member, kind, _ in STRUCTS[name][1]]


class FlowField(Structure):
    _c_name_ = "kvmill_flow_field"
    _fields_ = [
        ("name", c_char_p),
        ("rows", c_int64),
        ("columns", c_int64),
        ("dtype", DLDataType),
    ]


class FlowConstant(Structure):
    _c_name_ = "kvmill_flow_constant"
    _fields_ = [
        ("name", c_char_p),
        *[(name, c_int64) for name in ("taps", "rows", "columns")],
        ("values", POINTER(c_float)),
    ]


class FlowOp(Structure):
    _c_name_ = "kvmill_flow_op"
    _fields_ = [
        ("op", c_char_p),
        ("inputs", c_char_p * 2),
        ("output", c_char_p),
        *[(name, c_double) for name in ("alpha", "beta", "scale")],
        ("dims", ctypes.c_uint32),
        *[(name, c_int64) for name in ("group", "start", "end", "rows", "columns")],
    ]


class FlowSelect(Structure):
    _c_name_ = "kvmill_flow_select"
    _fields_ = [
        *[
            (name, c_int64)
            for name in (
                *("topk_val", "reserved_bos", "reserved_eos"),
                *("ratio_numerator", "ratio_denominator", "cap", "dense_below"),
            )
        ],
        ("order", c_char_p),
        ("scope", c_char_p),
    ]


class ElementType(Structure):
    _c_name_ = "kvmill_element_type"
    _fields_ = [
        ("dtype", DLDataType),
        ("expressed", DLDataType),
        ("scale", c_double),
        *[(name, c_int64) for name in ("zero_point", "storage_min", "storage_max")],
    ]


class Region(Structure):
    _c_name_ = "kvmill_region"
    _fields_ = [
        ("arguments", POINTER(ElementType)),
        ("ops", c_void_p),
        ("op_count", c_size_t),
        ("results", POINTER(c_int32)),
        ("capture_count", c_size_t),
    ]


_Tensors = POINTER(POINTER(DLTensor))


class TensorScatterOp(Structure):
    _c_name_ = "kvmill_tensor_scatter"
    _fields_ = _members(_c_name_)


class AttentionOp(Structure):
    _c_name_ = "kvmill_attention"
    _fields_ = _members(_c_name_)


class AttentionStepOp(Structure):
    _c_name_ = "kvmill_tensor_scatter_attention"
    _fields_ = _members(_c_name_, attention=POINTER(AttentionOp))


class CacheAttentionOp(Structure):
    _c_name_ = "kvmill_cache_attention"
    _fields_ = _members(_c_name_)


class CacheAttendOp(Structure):
    _c_name_ = "kvmill_cache_attend"
    _fields_ = _members(_c_name_)


class WriteRowsOp(Structure):
    _c_name_ = "kvmill_write_rows"
    _fields_ = _members(_c_name_)


class GatherOp(Structure):
    _c_name_ = "kvmill_gather"
    _fields_ = _members(_c_name_)


class ScatterOp(Structure):
    _c_name_ = "kvmill_scatter"
    _fields_ = _members(
        _c_name_,
        update_computation=c_char_p,
        region=POINTER(Region),
        elements=POINTER(ElementType),
        update_elements=POINTER(ElementType),
        inputs=_Tensors,
        updates=_Tensors,
        results=_Tensors,
    )


class FlowProgram(Structure):
    _c_name_ = "kvmill_flow"
    _fields_ = _members(
        _c_name_,
        attention=POINTER(CacheAttentionOp),
        fields=POINTER(FlowField),
        constants=POINTER(FlowConstant),
        cache=POINTER(FlowOp),
        index=POINTER(FlowOp),
        select=FlowSelect,
        layers_skip=POINTER(c_int64),
        field_heads=POINTER(c_int64),
        field_scales=POINTER(c_char_p),
    )


class Fraction(Structure):
    _c_name_ = "kvmill_fraction"
    _fields_ = [("numerator", c_int64), ("denominator", c_int64)]


class FlowLayout(Structure):
    _c_name_ = "kvmill_flow_layout"
    _fields_ = [
        ("struct_size", c_size_t),
        *[(name, c_int64) for name in ("page_size", "kv_heads", "group", "page_bytes")],
        *[(name, Fraction) for name in ("ratio_elements", "ratio_bytes", "ratio_fields")],
        ("block_size", c_int64),
    ]


class FlowLimits(Structure):
    _c_name_ = "kvmill_flow_limits"
    _fields_ = [
        ("struct_size", c_size_t),
        *[(name, c_int64) for name in ("batch", "pages", "cache_pages")],
    ]


class PoolOptions(Structure):
    _c_name_ = "kvmill_pool_options"
    _fields_ = [("struct_size", c_size_t), ("pinned", c_int), ("sleeps_at_once", c_int)]


class NamedAttribute(Structure):
    _c_name_ = "kvmill_named_attribute"
    _fields_ = [
        ("name", c_char_p),
        ("word", c_char_p),
        ("integer", c_int64),
        ("real", c_double),
        ("is_real", c_int),
    ]


class NamedTensor(Structure):
    _c_name_ = "kvmill_named_tensor"
    _fields_ = [("name", c_char_p), ("tensor", POINTER(DLTensor))]


class NamedTensorPlace(Structure):
    _c_name_ = "kvmill_named_tensor_place"
    _fields_ = [(name, c_int32) for name in ("index", "in", "out", "only_int64")]


class Call(Structure):
    _c_name_ = "kvmill_call"
    _fields_ = [("opaque", ctypes.c_uint64 * 208)]


def _check_layouts(structs: Iterable[Any]) -> None:
    for struct in structs:
        size, members = STRUCTS[struct._c_name_]
        offsets = [getattr(struct, member).offset for member, *_ in members]
        if ctypes.sizeof(struct) != size or offsets != [offset for *_, offset in members]:
            raise ImportError(f"{struct.__name__} is laid out otherwise on this machine")


CPU = 1
DYNAMIC = -1
_SONAME = "libkvmill.so.1"


_PLANNED = {
    "tensor_scatter": TensorScatterOp,
    "key_value_cache": CacheAttentionOp,
    "multi_head_attention": CacheAttentionOp,
    "multi_head_cache_attention": CacheAttentionOp,
    "cache_attend": CacheAttendOp,
    "write_rows": WriteRowsOp,
    "attention": AttentionOp,
    "tensor_scatter_attention": AttentionStepOp,
    "gather": GatherOp,
    "scatter": ScatterOp,
}


_check_layouts({*_PLANNED.values(), FlowProgram})


# The directory in a wheel with the files that `make install` installs.
PREFIX = Path(__file__).parent / "installed"


def _find_library() -> str:
    own = PREFIX / "lib" / _SONAME
    return os.environ.get("KVMILL_LIBRARY") or (str(own) if own.exists() else _SONAME)


_PLAN = POINTER(PlanOptions), POINTER(c_void_p), POINTER(Error)
_FLOW = POINTER(FlowProgram)
_FLOWS = {
    **{
        f"kvmill_plan_flow_{step}": (c_int, [_FLOW, POINTER(FlowLimits), *_PLAN])
        for step in ("append", "index", "attend", "decode", "summarise")
    },
    "kvmill_flow_describe": (c_int, [_FLOW, POINTER(FlowLayout), POINTER(Error)]),
    "kvmill_flow_field_at": (c_int, [_FLOW, c_size_t, POINTER(FlowField)]),
    "kvmill_flow_count": (c_int, [_FLOW, c_int64, *3 * [c_void_p], POINTER(Error)]),
}


_POOLS = {
    "kvmill_pool_create": (c_int, [c_int, POINTER(PoolOptions), POINTER(c_void_p), c_void_p]),
    "kvmill_pool_threads": (c_int, [c_void_p]),
    "kvmill_pool_destroy": (None, [c_void_p]),
}


class _SymbolInfo(Structure):
    _c_name_ = "Dl_info"
    _fields_ = [
        ("dli_fname", c_char_p),
        ("dli_fbase", c_void_p),
        ("dli_sname", c_char_p),
        ("dli_saddr", c_void_p),
    ]


def library_directory() -> Path:
    """Return the directory of the library in use."""
    info = _SymbolInfo()
    ctypes.CDLL(None).dladdr(library.kvmill_version, ctypes.byref(info))
    return Path(os.fsdecode(info.dli_fname or b"")).resolve().parent


def _load_library() -> ctypes.CDLL:
    library = ctypes.CDLL(_find_library())
    bound = [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]
    signatures = {
        "kvmill_version": (c_char_p, []),
        "kvmill_status_name": (c_char_p, [c_int]),
        **_POOLS,
        **{f"kvmill_plan_{op}": (c_int, [POINTER(kind), *_PLAN]) for op, kind in _PLANNED.items()},
        **_FLOWS,
        "kvmill_attention_init": (None, [POINTER(AttentionOp), c_size_t]),
        "kvmill_cache_attention_init": (None, [POINTER(CacheAttentionOp), c_size_t]),
        "kvmill_cache_attend_init": (None, [POINTER(CacheAttendOp), c_size_t]),
        "kvmill_write_rows_init": (None, [POINTER(WriteRowsOp), c_size_t]),
        "kvmill_merge_partials": (
            None,
            [c_int64, c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p],
        ),
        "kvmill_plan_named": (c_int, [c_char_p, c_void_p, c_size_t, c_void_p, c_size_t, *_PLAN]),
        "kvmill_named_place": (c_int, [c_char_p, c_char_p, POINTER(NamedTensorPlace), POINTER(Error)]),
        "kvmill_plan_workspace_size": (c_size_t, [c_void_p]),
        "kvmill_plan_destroy": (None, [c_void_p]),
        "kvmill_plan_describe": (c_size_t, [c_void_p, c_char_p, c_size_t]),
        "kvmill_run": (c_int, bound),
        "kvmill_run_on": (c_int, [c_void_p, *bound]),
        "kvmill_run_parallel": (c_int, [*bound, c_void_p, c_void_p]),
        "kvmill_begin": (c_int, [c_void_p, *bound]),
        "kvmill_parts": (c_int64, [c_void_p]),
        "kvmill_part": (None, [c_void_p, c_int64]),
        "kvmill_next": (c_int, [c_void_p]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


library = _load_library()
