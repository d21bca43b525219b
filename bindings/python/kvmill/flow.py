"""Sparse flows.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import json
import os
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from ctypes import byref, c_char_p, c_float, c_int64
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from . import c
from .arrays import DTYPES, DType, Operand, dtype_named
from .cache_attention import ATTENTION_ATTRIBUTES, ATTENTION_TENSORS, Attending, required
from .errors import check
from .names import names_of, ordered_names, types_of
from .ops import integers, make_struct, text
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

_FLOW_STEPS = ("append", "index", "attend", "decode", "summarise")
_FLOW_TENSORS = tuple(name for name in ordered_names(*_FLOW_STEPS) if name not in ATTENTION_TENSORS)
_FLOW_TYPES = types_of(*_FLOW_STEPS)
_FLOW_ALL = 2**31 - 1

# What alpha and beta are where a flow does not say; of ops that are not here 0 and 1.
_FLOW_DEFAULTS = {"Add": (1, 1), "Relu": (0, 0)}
_FLOW_REQUIRED = {
    "MaskSlice": ("alpha", "beta"),
    "Sigmoid": ("beta",),
    "Silu": ("beta",),
    "Union": ("second",),
    "approxTopK": ("tolerance",),
}


def _known(place: str, given: dict[str, Any], *known: str, needed: Sequence[str] = ()) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ValueError(f"{place}: {given!r}; accepted: an object")
    for name in needed:
        if name not in given:
            raise ValueError(f"{place}: no {name}; accepted: {name}")
    unknown = set(given) - set(known)
    if unknown:
        raise ValueError(f"{place}: {sorted(unknown)}; accepted: {', '.join(known)}")
    return given


def _of_0_1(attention: dict[str, Any]) -> dict[str, Any]:
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
        self, source: str | os.PathLike[str] | dict[str, Any], **attention: int | float | str | bool
    ) -> None:
        spec = source if isinstance(source, dict) else json.loads(Path(source).read_text("utf-8"))
        keys = ("op", "purpose", "name", "attention", "fields", "constants", "cache", "index")
        _known("flow", spec, *keys, "select", "summary", "layers_skip", "dims", "block_size")
        if spec.get("op") != "flow":
            raise ValueError(f"op is {spec.get('op')!r}; accepted: 'flow'")
        words = _known("dims", spec.get("dims", {}), *spec.get("dims", {}))
        self._words = dict(zip(words, integers("dims", list(words.values()))))
        self._set_attention({**_of_0_1(spec.get("attention", {})), **attention})
        self._flow = make_struct(
            c.FlowProgram,
            attention=ctypes.pointer(self._attention._op),
            select=self._select(spec.get("select", {})),
            summary=spec.get("summary"),
            block_size=spec.get("block_size", 0),
        )
        fields = list(spec.get("fields", ()))
        self._set("fields", "field_count", c.FlowField, map(self._field, fields))
        self._flow.appended = sum(bool(f.get("appended")) << i for i, f in enumerate(fields))
        heads = integers("heads", [f.get("heads", 0) for f in fields])
        self._flow.field_heads = (c_int64 * len(heads))(*heads)
        constants = map(self._constant, spec.get("constants", ()))
        self._set("constants", "constant_count", c.FlowConstant, constants)
        for program in ("cache", "index"):
            ops = map(self._op, spec.get(program, ()))
            self._set(program, f"{program}_count", c.FlowOp, ops)
        layers = integers("layers_skip", spec.get("layers_skip", ()))
        self._set("layers_skip", "layers_skip_count", c_int64, layers)
        self._layout = self._describe()

    def _set_attention(self, attributes: dict[str, Any]) -> None:
        labels = {"attn_mask", "name", "purpose", "layers"}
        given = {name: value for name, value in attributes.items() if name not in labels}
        needed = ("num_heads", "head_dim", "T1")
        _known("attention", given, *sorted(ATTENTION_ATTRIBUTES), needed=needed)
        given = {"num_kv_heads": given.get("num_heads"), "cache_mode": 1, **given}
        self._attention = FlowStep.__new__(FlowStep)
        types = {"dynamic_batching": 1, **given}
        self._attention._op = self._attention._make_op(types.pop("T1"), types)

    def _set(self, member: str, count: str, kind: Any, items: Iterable[Any]) -> None:
        array = list(items)
        setattr(self._flow, member, (kind * len(array))(*array))
        setattr(self._flow, count, len(array))

    def _dim(self, dim: int | str) -> int:
        """A number, or "head_dim", "page_size/16", "group*head_dim" and the like."""
        op = self._attention._op
        alone = self._flow.select.scope == b"query_head"
        sizes = {
            "head_dim": op.head_dim,
            "value_head_dim": op.value_head_dim if op.value_differs else op.head_dim,
            "page_size": op.page_size,
            "block_size": self._flow.block_size or op.page_size,
            "group": 1 if alone else op.num_heads // max(op.num_kv_heads, 1),
        }
        sizes = {**self._words, **sizes}
        if isinstance(dim, int):
            return dim
        product = 1
        for sign, factor in re.findall(r"(^|[*/])([^*/]*)", str(dim)):
            value = int(factor) if factor.isdecimal() else int(sizes.get(factor, 0))
            if value < 1 or (sign == "/" and product % value != 0):
                raise ValueError(f"dim {dim!r}; accepted: a number, {', '.join(sizes)}, a product")
            product = product // value if sign == "/" else product * value
        return product

    def _field(self, given: dict[str, Any]) -> c.FlowField:
        known = ("name", "shape", "dtype", "appended", "heads")
        _known("fields", given, *known, needed=("name", "shape"))
        rows, columns = map(self._dim, given["shape"])
        dtype = dtype_named(given.get("dtype", self._attention._types["T1"]))
        return make_struct(
            c.FlowField, name=given["name"], rows=rows, columns=columns, dtype=dtype.name
        )

    def _constant(self, given: dict[str, Any]) -> c.FlowConstant:
        _known("constants", given, *(known := ("name", "shape", "values")), needed=known)
        shape = [1, *map(self._dim, given["shape"])][-3:]
        taps, rows, columns = shape
        constant = make_struct(
            c.FlowConstant, name=given["name"], taps=taps, rows=rows, columns=columns
        )
        if given["values"] != "input":
            values = np.broadcast_to(np.asarray(given["values"], np.float32), int(np.prod(shape)))
            constant.values = (c_float * values.size)(*values)
        return constant

    def _op(self, given: dict[str, Any]) -> c.FlowOp:
        numbers = ("alpha", "beta", "scale", "dim", "group", "start", "end", "shape")
        own = ("tolerance", "second")
        _known("op", given, "op", "inputs", "output", *numbers, *own, needed=("op",))
        _known(given["op"], given, *given, needed=_FLOW_REQUIRED.get(given["op"], ()))
        alpha, beta = _FLOW_DEFAULTS.get(given["op"], (0, 1))
        dims = given.get("dim", 0)
        names = [text(f"{given['op']}: inputs", name) for name in given.get("inputs", ())]
        if len(names) > 2:
            raise ValueError(f"{given['op']}: {len(names)} inputs; accepted: at most 2")
        rows, columns = map(self._dim, given.get("shape", (0, 0)))
        return make_struct(
            c.FlowOp,
            op=given["op"],
            inputs=(c_char_p * 2)(*names),
            output=given.get("output"),
            alpha=given.get("tolerance", given.get("alpha", alpha)),
            beta=given.get("beta", beta),
            scale=given.get("scale", 1),
            dims=sum(1 << dim for dim in {*(dims if isinstance(dims, list) else [dims])}),
            rows=rows,
            columns=columns,
            group=self._dim(given.get("second", given.get("group", 0))),
            **{name: self._dim(given.get(name, 0)) for name in ("start", "end")},
        )

    def _select(self, given: dict[str, Any]) -> c.FlowSelect:
        counts = ("topk_val", "reserved_bos", "reserved_eos", "cap", "dense_below")
        _known("select", given, *counts, "topk_ratio", "order", "scope")
        try:
            ratio = Fraction(given.get("topk_ratio", 0))
        except (TypeError, ValueError, ZeroDivisionError):
            words = f"topk_ratio {given['topk_ratio']!r}; accepted: '1/16' and the like, 0, 1"
            raise ValueError(words) from None
        values: dict[str, Any] = {"topk_val": 30, "reserved_bos": 1, "reserved_eos": 1}
        values |= {name: given[name] for name in counts if name in given}
        numbers = {"all": _FLOW_ALL, **self._words}
        values["topk_val"] = numbers.get(values["topk_val"], values["topk_val"])
        return make_struct(
            c.FlowSelect,
            ratio_numerator=ratio.numerator,
            ratio_denominator=ratio.denominator,
            order=given.get("order"),
            scope=given.get("scope"),
            **values,
        )

    def _describe(self) -> c.FlowLayout:
        layout, error = c.FlowLayout(struct_size=ctypes.sizeof(c.FlowLayout)), c.Error()
        check(
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

    def get_cache_meta_info(self) -> dict[str, tuple[int, int]]:
        """What a page, or block, keeps for each kv head, as vFlow's: the flow's fields in their
        order, then k and v: (rows, columns).
        """
        field = c.FlowField()
        info: dict[str, tuple[int, int]] = {}
        while c.library.kvmill_flow_field_at(byref(self._flow), len(info), byref(field)):
            info[field.name.decode()] = (field.rows, field.columns)
        return info

    def get_token_ratio(self) -> float:
        """token_ratio as vFlow's function has it."""
        return float(self.token_ratio)

    def count(self, seq_len: Operand, topk_vals: Operand | None = None) -> np.ndarray:
        """sel_indptr of an index step for requests of so many tokens, before anything runs; its last
        number is how long sel is.  topk_vals: as of the step.
        """
        lengths = np.ascontiguousarray(seq_len, np.int64)
        chosen = None if topk_vals is None else np.ascontiguousarray(topk_vals, np.int64)
        if lengths.ndim != 1 or (chosen is not None and chosen.shape != lengths.shape):
            raise ValueError(f"seq_len of shape {lengths.shape}; accepted: a number per request")
        starts, error = np.zeros(lengths.size * self._lists + 1, np.int64), c.Error()
        data = [None if a is None else a.ctypes.data for a in (lengths, chosen, starts)]
        status = c.library.kvmill_flow_count(byref(self._flow), lengths.size, *data, byref(error))
        check(status, error)
        return starts

    @property
    def _lists(self) -> int:
        """Of a request."""
        lists = {b"request": 1, b"query_head": self._attention._op.num_heads}
        return int(lists.get(self._flow.select.scope, self._layout.kv_heads))

    @property
    def _page_blocks(self) -> int:
        return int(self._layout.page_size // self._layout.block_size)

    def fields(self, pages: int) -> dict[str, np.ndarray]:
        """New fields of so many pages of the cache, by their names: zeros; bfloat16 as uint16."""
        numpy = {(2, 32): np.float32, (2, 16): np.float16, (4, 16): np.uint16}
        return {
            field.name.decode(): np.zeros(
                (
                    pages * self._page_blocks,
                    self._flow.field_heads[i] or self._layout.kv_heads,
                    field.rows,
                    field.columns,
                ),
                numpy[field.dtype.code, field.dtype.bits],
            )
            for i, field in enumerate(self._flow.fields[: self._flow.field_count])
        }

    def _own_tensors(self) -> dict[str, Any]:
        """The types of tensors that the flow names, in their order: fields, rows of new tokens for
        those that are appended, inputs.
        """
        fields = {
            field.name.decode(): field.dtype
            for field in self._flow.fields[: self._flow.field_count]
        }
        rows = {
            f"current_{name}": dtype
            for i, (name, dtype) in enumerate(fields.items())
            if self._flow.appended >> i & 1
        }
        inputs = {
            constant.name.decode(): dtype_named("float32")
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
        """A plan of a step: "append", "index", "attend", "decode" or "summarise".

        batch, pages: most requests of a call, and most pages of a request; cache_pages: most pages
        of a cache, which append and summarise look at.  Others as of MultiHeadCacheAttention.
        """
        if step not in _FLOW_STEPS:
            raise ValueError(f"step {step!r}; accepted: {', '.join(_FLOW_STEPS)}")
        limits = make_struct(c.FlowLimits, batch=batch, pages=pages, cache_pages=cache_pages)
        own = given_packs(packs)
        options = plan_options(own, portable, isa, threads)
        return FlowStep(self, step, limits, options, own)


class FlowStep(Attending):
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
        own = flow._own_tensors()
        fields = list(own)[: flow._flow.field_count]
        self._names = (*ATTENTION_TENSORS, *_FLOW_TENSORS, *own)
        self._field_types = {
            name: next(n for n, d in DTYPES.items() if (d.code, d.bits) == (t.code, t.bits))
            for name, t in own.items()
        }
        results = ("attn_output", "lse") if self._op.partial else ("attn_output",)
        self._outputs = {"append": (), "summarise": (), "index": ("sel_indptr", "sel")}.get(
            step, results
        )
        ops = flow._flow.index[: flow._flow.index_count]
        saved = (op.output.decode() for op in ops if op.op == b"Save")
        summaries = [f for i, f in enumerate(fields) if not flow._flow.appended >> i & 1]
        filled = {"append": fields, "summarise": summaries, "attend": ()}
        fields_written = filled.get(step, saved)
        program = flow._flow.cache[: flow._flow.cache_count]
        writes = step != "summarise" or any(op.output in (b"k", b"v") for op in program)
        caches = names_of("inout", step) if writes else ()
        self._written = (*caches, *names_of("out", step), *fields_written)
        self._handle = make_plan(self, f"kvmill_plan_flow_{step}", flow._flow, limits, options)

    def _declared(self, name: str) -> DType | None:
        field = self._field_types.get(name)
        return super()._declared(name) if field is None else dtype_named(field)

    def prepare(self, **tensors: Operand) -> Call:
        """Bind the plan to arrays, outputs included, for runs without the cost of Python's side.

        Numbers given otherwise than as arrays are copied here.
        """
        return super().prepare(**tensors)

    def _operands(self, **tensors: Operand) -> tuple[MakeTensor, Arrays]:
        return super()._operands(**self._with_numbers(tensors))

    @staticmethod
    def _with_numbers(tensors: dict[str, Any]) -> dict[str, Any]:
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
        """Run on arrays.  append updates caches and fields in place, so does summarise, and both return
        None; index returns (sel_indptr, sel); attend and decode attn_output, with partial (attn_output, lse).

        Tensors are those of kvmill.h, fields and inputs by their names in the flow, rows of new
        tokens for a field as current_NAME; seq_len, page_indptr,
        slot_mapping, topk_vals and sel_indptr are int64, page_ids, sel and block_ids int32, or
        sequences.
        cache and activations are as of MultiHeadCacheAttention.  Of decode sel_indptr, sel,
        block_ids and scores, of index block_ids and scores are outputs if they are given.

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
