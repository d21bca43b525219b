"""Sparse flows.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Sequence
from concurrent.futures import Executor
from ctypes import byref
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from . import c
from .arguments import shown
from .arrays import DType, Operand, as_array, dtype_of_c, raw_type_of
from .cache_attention import ATTENTION_TENSORS, Attending, required
from .errors import check
from .names import names_of, ordered_names, types_of
from .ops import integer, make_struct, text
from .plans import (
    Arrays,
    Call,
    MakeTensor,
    Pack,
    Portable,
    given_packs,
    make_plan,
    plan_options,
)
from .pools import Threads
from .specs import read_flow

_FLOW_STEPS = ("append", "index", "attend", "decode", "summarise")
_FLOW_TENSORS = tuple(name for name in ordered_names(*_FLOW_STEPS) if name not in ATTENTION_TENSORS)
_FLOW_TYPES = types_of(*_FLOW_STEPS)
_MOST_PAGES = 2**31 - 1


def _plain(value: Any) -> Any:
    """Return the JSON value of a NumPy number or array, or of a fraction."""
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return np.ravel(value).tolist() if np.ndim(value) else value.item()
    raise TypeError(f"source has {shown(value)}; accepted: what JSON can hold")


def _parsed(name: str, content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise ValueError(f"{name}: {error}; accepted: JSON") from error


def _with_attention(spec: Any, attention: dict[str, Any]) -> Any:
    """Add attention attributes to a spec.  A source that is not a flow is returned unchanged, and
    the reader refuses it."""
    own = spec.get("attention", {}) if isinstance(spec, dict) else None
    if not isinstance(own, dict):
        return spec
    given = {name: value for name, value in attention.items() if value is not None}
    return {**spec, "attention": {**own, **given}}


def _integers_of(name: str, given: Any) -> np.ndarray:
    """Return an array of the integer type that the library expects.  Raises TypeError and
    ValueError."""
    array, wanted = as_array(given, name), _FLOW_TYPES[name]
    if array.size > 0 and array.dtype.kind not in "iu":
        raise TypeError(f"{name} has type {array.dtype}; accepted: integers")
    try:
        return np.asarray(given, wanted)
    except OverflowError:
        raise ValueError(f"{name} is {shown(given)}; accepted: integers of {wanted}") from None


def _read(source: str | os.PathLike[str] | dict[str, Any], attention: dict[str, Any]) -> c.FlowProgram:
    """Read a flow.  A file is read without changes if there are no further attributes, so that
    messages have its line numbers."""
    if isinstance(source, dict):
        name, spec = "flow", source
    else:
        if not isinstance(source, (str, os.PathLike)):
            raise TypeError(f"source is {shown(source)}; accepted: the path of a flow file, or a dict")
        text("source", os.fspath(source))
        name, content = os.fspath(source), Path(source).read_bytes()
        if not attention:
            return read_flow(name, content)
        spec = _parsed(name, content)
    try:
        words = json.dumps(_with_attention(spec, attention), default=_plain, allow_nan=False)
    except ValueError as error:
        raise ValueError(f"source has a value that is not JSON: {error}; accepted: what JSON can hold") from error
    return read_flow(name, words.encode())


def _views_of_piece(fields: dict[str, np.ndarray], by_page: bool) -> dict[str, np.ndarray]:
    """Return fields as views of one piece of memory, ordered by page, or by kv head and then
    page."""
    sizes = [field.itemsize * field.shape[2] * field.shape[3] for field in fields.values()]
    blocks, heads = next(iter(fields.values())).shape[:2] if fields else (0, 0)
    if blocks == 0:
        return fields
    record, first = sum(sizes), 0
    views: dict[str, np.ndarray] = {}
    piece = np.zeros(blocks * heads * record, np.uint8)
    outer = (heads * record, record) if by_page else (record, blocks * record)
    for (name, field), size in zip(fields.items(), sizes):
        strides = (*outer, field.shape[3] * field.itemsize, field.itemsize)
        views[name] = np.ndarray(field.shape, field.dtype, piece, first, strides)
        first += size
    return views


class Flow:
    """A sparse flow: attention over a paged cache that reads only some of the pages.

    source: a flow file (kvmill-specs(5)), or the contents of such a file as a dict.
    attention: attributes that override those in the source's `attention`, such as num_heads=32.

    Raises KvmillError, with the place in the source, if the source is not a valid flow; TypeError or
    ValueError if it has a value that JSON cannot hold; OSError if the file, or the library
    libkvmill_specs that reads it, does not exist.
    """

    def __init__(
        self, source: str | os.PathLike[str] | dict[str, Any], **attention: int | float | str | bool
    ) -> None:
        self._flow = _read(source, attention)
        self._layout = self._describe()

    @property
    def _attention(self) -> c.CacheAttentionOp:
        op: c.CacheAttentionOp = self._flow.attention.contents
        return op

    def _describe(self) -> c.FlowLayout:
        layout, error = c.FlowLayout(struct_size=ctypes.sizeof(c.FlowLayout)), c.Error()
        check(
            c.library.kvmill_flow_describe(byref(self._flow), byref(layout), byref(error)), error
        )
        return layout

    @property
    def token_ratio(self) -> Fraction:
        """Elements of K, V and fields, divided by the elements of K."""
        ratio = self._layout.ratio_elements
        return Fraction(ratio.numerator, ratio.denominator)

    @property
    def token_ratio_bytes(self) -> Fraction:
        """Bytes of K, V and fields, divided by the bytes of K."""
        ratio = self._layout.ratio_bytes
        return Fraction(ratio.numerator, ratio.denominator)

    def get_cache_meta_info(self) -> dict[str, tuple[int, int]]:
        """Return (rows, columns) of each matrix that a page or block has for a kv head: the flow's
        fields in their order, then k and v.  The name is vFlow's."""
        field = c.FlowField()
        info: dict[str, tuple[int, int]] = {}
        while c.library.kvmill_flow_field_at(byref(self._flow), len(info), byref(field)):
            info[field.name.decode()] = (field.rows, field.columns)
        return info

    def get_token_ratio(self) -> float:
        """Return token_ratio, under the name of vFlow's function."""
        return float(self.token_ratio)

    def count(self, seq_len: Operand, topk_vals: Operand | None = None) -> np.ndarray:
        """Return the sel_indptr that an index step would return for requests of these lengths.  The last
        number is the length that sel must have.

        topk_vals: as for the step.
        """
        lengths = np.ascontiguousarray(seq_len, np.int64)
        chosen = None if topk_vals is None else np.ascontiguousarray(topk_vals, np.int64)
        if lengths.ndim != 1 or (chosen is not None and chosen.shape != lengths.shape):
            raise ValueError(f"seq_len has shape {lengths.shape}; accepted: a number per request")
        starts, error = np.zeros(lengths.size * self._lists + 1, np.int64), c.Error()
        data = [None if a is None else a.ctypes.data for a in (lengths, chosen, starts)]
        status = c.library.kvmill_flow_count(byref(self._flow), lengths.size, *data, byref(error))
        check(status, error)
        return starts

    @property
    def _lists(self) -> int:
        """The number of lists of a request."""
        lists = {b"request": 1, b"query_head": self._attention.num_heads}
        return int(lists.get(self._flow.select.scope, self._layout.kv_heads))

    @property
    def _page_blocks(self) -> int:
        return int(self._layout.page_size // self._layout.block_size)

    def fields(self, pages: int) -> dict[str, np.ndarray]:
        """Return new fields, filled with zeros, for this number of pages of the cache, by name.

        bfloat16 fields are uint16, float8 fields are uint8, and int8 fields are int8.  If the flow's
        field_layout is not "apart", the fields are views of one piece of memory.
        """
        shared, kv_heads = self._flow.field_heads, self._layout.kv_heads
        pages = integer("pages", pages)
        if not 0 <= pages <= _MOST_PAGES:
            raise ValueError(f"pages is {pages}; accepted: 0 to {_MOST_PAGES}")
        fields = {
            field.name.decode(): np.zeros(
                (
                    pages * self._page_blocks,
                    (shared and shared[i]) or kv_heads,
                    field.rows,
                    field.columns,
                ),
                raw_type_of(field.dtype),
            )
            for i, field in enumerate(self._flow.fields[: self._flow.field_count])
        }
        layout = self._flow.field_layout
        return fields if layout in (None, b"apart") else _views_of_piece(fields, layout == b"page")

    def _scales(self) -> list[str | None]:
        """Return, for each field, the name of the field that holds its scales."""
        names, count = self._flow.field_scales, self._flow.field_count
        given = names[:count] if names else [None] * count
        return [name and name.decode() for name in given]

    def _own_tensors(self) -> dict[str, Any]:
        """Return the types of the tensors that the flow names, in this order: fields, new rows of
        appended fields, inputs."""
        fields = {
            field.name.decode(): field.dtype
            for field in self._flow.fields[: self._flow.field_count]
        }
        scales, activation = self._scales(), self._attention.T1
        rows = {
            f"current_{name}": activation if scales[i] else dtype
            for i, (name, dtype) in enumerate(fields.items())
            if self._flow.appended >> i & 1
        }
        inputs = {
            constant.name.decode(): c.DLDataType(2, 32, 1)
            for constant in self._flow.constants[: self._flow.constant_count]
            if not constant.values
        }
        return fields | rows | inputs

    def plan(
        self,
        step: str,
        *,
        batch: int = 1,
        pages: int = 0,
        cache_pages: int = 0,
        packs: Sequence[Pack] | None = None,
        portable: Portable = "warn",
        isa: str | None = None,
        threads: Threads = 1,
    ) -> FlowStep:
        """Return a plan of a step: "append", "index", "attend", "decode" or "summarise".

        batch: the highest number of requests in a call.
        pages: the highest number of pages of a request.
        cache_pages: the highest number of pages in a cache; append and summarise need it.

        The other arguments are those of MultiHeadCacheAttention.
        """
        if not isinstance(step, str) or step not in _FLOW_STEPS:
            raise ValueError(f"step is {shown(step)}; accepted: {', '.join(_FLOW_STEPS)}")
        limits = make_struct(c.FlowLimits, batch=batch, pages=pages, cache_pages=cache_pages)
        own = given_packs(packs)
        options = plan_options(own, portable, isa, threads)
        return FlowStep(self, step, limits, options, own)


def _types_of(op: c.CacheAttentionOp) -> dict[str, str]:
    """Return the names of T1 to T3, and of V's types if V differs from K."""
    words = ("T1", "T2", "T3", *(("value_T2", "value_T3") if op.value_differs else ()))
    types = {word: dtype_of_c(getattr(op, word)) for word in words}
    return {word: dtype.name for word, dtype in types.items() if dtype is not None}


class FlowStep(Attending):
    """A plan of a step of a sparse flow, made by Flow.plan.  Any number of threads may run it at the same
    time, on different caches.  The section "Sparse flows" of kvmill.h lists the tensors of each step.
    """

    def __init__(
        self,
        flow: Flow,
        step: str,
        limits: c.FlowLimits,
        options: c.PlanOptions,
        packs: tuple[Pack, ...],
    ) -> None:
        self._op, self._types = flow._attention, _types_of(flow._attention)
        self._flow, self._packs, self._step = flow, packs, step
        own = flow._own_tensors()
        fields = list(own)[: flow._flow.field_count]
        self._names = (*ATTENTION_TENSORS, *_FLOW_TENSORS, *own)
        self._field_types = {name: dtype_of_c(dtype) for name, dtype in own.items()}
        results = ("attn_output", "lse") if self._op.partial else ("attn_output",)
        self._outputs = {"append": (), "summarise": (), "index": ("sel_indptr", "sel")}.get(
            step, results
        )
        ops = flow._flow.index[: flow._flow.index_count]
        saved = (op.output.decode() for op in ops if op.op == b"Save")
        scales = flow._scales()
        summaries = [
            f for i, f in enumerate(fields) if not flow._flow.appended >> i & 1 and f not in scales
        ]
        filled = {"append": fields, "summarise": summaries, "attend": ()}
        fields_written = filled.get(step, saved)
        program = flow._flow.cache[: flow._flow.cache_count]
        writes = step != "summarise" or any(op.output in (b"k", b"v") for op in program)
        caches = names_of("inout", step) if writes else ()
        self._written = (*caches, *names_of("out", step), *fields_written)
        self._handle = make_plan(self, f"kvmill_plan_flow_{step}", flow._flow, limits, options)

    def _declared(self, name: str) -> DType | None:
        return self._field_types.get(name) or super()._declared(name)

    def prepare(self, **tensors: Operand) -> Call:
        """Bind the plan to arrays, including outputs.  Running the returned call costs no more than in C.

        Arguments that are not arrays are copied now.
        """
        return super().prepare(**tensors)

    def _operands(self, **tensors: Operand) -> tuple[MakeTensor, Arrays]:
        return super()._operands(**self._with_numbers(tensors))

    @staticmethod
    def _with_numbers(tensors: dict[str, Any]) -> dict[str, Any]:
        """Convert sequences to arrays of the integer types that the library expects."""
        given = {
            name: array
            for name, array in tensors.items()
            if name in _FLOW_TENSORS and array is not None and not isinstance(array, np.ndarray)
        }
        return tensors | {name: _integers_of(name, array) for name, array in given.items()}

    def run(
        self, *, executor: Executor | None = None, **tensors: Operand
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray] | None:
        """Run on arrays.

        append and summarise update caches and fields in place, and return None.  index returns
        (sel_indptr, sel).  attend and decode return attn_output, or (attn_output, lse) with partial.

        Tensors have their names in kvmill.h; fields and inputs have their names in the flow; new
        rows of a field are current_NAME.  seq_len, page_indptr, slot_mapping, topk_vals and sel_indptr
        are int64, and page_ids, sel and block_ids int32; sequences are also accepted.  cache and
        activations are passed as for MultiHeadCacheAttention.

        These are additional outputs if they are given: sel_indptr, sel, block_ids and scores of
        decode; block_ids and scores of index.

        Raises KvmillError (then nothing has been written), TypeError and ValueError.
        """
        outputs = self._run(self._with_numbers(tensors), executor)
        if not self._outputs:
            return None
        if self._step == "index":
            return outputs[0], outputs[1][: outputs[0][-1]]
        return outputs

    def _new_output(self, name: str, tensors: dict[str, Any]) -> np.ndarray:
        if name not in _FLOW_TENSORS:
            return super()._new_output(name, tensors)
        lists = self._flow._lists
        if name == "sel_indptr":
            return np.zeros(required(tensors, "seq_len", 1).size * lists + 1, np.int64)
        pages = required(tensors, "page_ids", 1).size
        return np.zeros(pages * self._flow._page_blocks * lists, np.int32)
