"""The two ops that attention "kvmill" calls, as functions and as ops of torch.library.

kvmill::store_and_attend stores new keys and values in a layer of a KvmillCache and attends to it;
kvmill::attend attends to tensors of keys and values.  torch.compile keeps each as one node.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch

from ..arrays import dtype_named
from ..cache_attend import CacheAttend
from ..cache_attention import MultiHeadCacheAttention
from .formats import Format
from .packs import cached_plans, make_plan
from .spans import make_spans, numbers_of
from .tensors import Calls, TensorCall, View, dtype_of, storage_view, view_of

_INT64 = dtype_named("int64")


class Scores(NamedTuple):
    """How scores are computed.  Members are those of kvmill.h, except that a window includes the
    query's own position, and 0 means no window."""

    scale: float
    softcap: float = 0.0
    window: int = 0
    math: str = "f32"

    def attributes(self) -> dict[str, object]:
        return {
            "softmax_scale": self.scale,
            "softcap": self.softcap,
            "left_window_size": self.window - 1,
            "math": self.math,
        }


@lru_cache
def scores_of(scale: float, softcap: float, window: int, math: str) -> Scores:
    return Scores(float(scale), float(softcap), window, math)


@dataclass(slots=True)
class Rows:
    """A layer's cache: keys and values [G, B, capacity, bytes or elements of a row], with their
    scales and formats.  most: the number of columns; 0 if the rows of a sequence are a ring."""

    keys: torch.Tensor
    key_scales: torch.Tensor | None
    values: torch.Tensor
    value_scales: torch.Tensor | None
    how: tuple[Format, Format]
    most: int
    views: list[tuple[int, View]] | None = None  # created when first used; None after changes

    def __reduce__(self):
        """Pickle without views, because a copy has its own memory."""
        keys = self.keys, self.key_scales
        values = self.values, self.value_scales
        return Rows, (*keys, *values, self.how, self.most)


def _numbers_view(numbers: np.ndarray) -> View:
    return numbers.ctypes.data, (numbers.shape, (), _INT64)


# ---- Plans ----

# Query heads, kv heads, elements of keys, elements of values.
Heads = tuple[int, int, int, int]


def _store_attributes(heads: Heads, how: tuple[Format, Format], ring: int) -> dict[str, object]:
    num_heads, num_kv_heads, dim, value_dim = heads
    key, value = how
    of_values = {f"value_{name}": word for name, word in value.attributes(value_dim).items()}
    return {
        "num_heads": num_heads,
        "num_kv_heads": num_kv_heads,
        "head_dim": dim,
        "cache_layout": 3,
        **key.attributes(dim),
        "value_head_dim": value_dim,
        **of_values,
        **({"mode": "circular", "capacity": ring} if ring else {}),
    }


@cached_plans
def _store_calls(
    T1: torch.dtype, heads: Heads, scores: Scores, how: tuple[Format, Format], ring: int
) -> Calls:
    plan = make_plan(
        "dynamic_batching.MultiHeadCacheAttention",
        T1=dtype_of(T1).name,
        **_store_attributes(heads, how, ring),
        **scores.attributes(),
    )
    return Calls(plan, MultiHeadCacheAttention._names, _StoreCall)


@cached_plans
def _attend_calls(
    T1: torch.dtype, heads: Heads, scores: Scores, is_causal: bool, mask_T1: torch.dtype | bool
) -> Calls:
    num_heads, num_kv_heads, dim, value_dim = heads
    plan = make_plan(
        "CacheAttend",
        T1=dtype_of(T1).name,
        key_T2=dtype_of(T1).name,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        key_head_dim=dim,
        value_head_dim=value_dim,
        is_causal=is_causal,
        **({"mask_T1": dtype_of(mask_T1).name} if mask_T1 else {}),
        **scores.attributes(),
    )
    return Calls(plan, CacheAttend._names, _AttendCall)


# ---- Storing and attending ----


class _StoreCall(TensorCall):
    """A call of MultiHeadCacheAttention with dynamic batching, and the arrays with its lengths."""

    _at = {name: i for i, name in enumerate(MultiHeadCacheAttention._names)}
    _batch = 0
    _lengths: tuple[int, int, int] | None = None  # set if all sequences have the same lengths
    _spans: torch.Tensor | None = None  # set otherwise

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self._seen: dict[str, tuple] = {}  # layouts of tokens that were placed without a copy

    def set_batch(self, batch: int) -> None:
        if batch == self._batch:
            return
        self._batch, self._steps = batch, np.arange(batch + 1)
        self._lengths = self._spans = None
        self._ones = np.zeros(3, np.int64)  # decoding_batches, max_seqlen, max_kvlen
        self._sums = np.zeros((2, batch + 1), np.int64)  # seqstarts, kvstarts
        self._starts = np.zeros((2, batch), np.int64)  # start_pos, cachestarts
        numbers = {
            "seqstarts": self._sums[0],
            "kvstarts": self._sums[1],
            "start_pos": self._starts[0],
            "cachestarts": self._starts[1],
            "decoding_batches": self._ones[:1],
            "max_seqlen": self._ones[1:2],
            "max_kvlen": self._ones[2:],
        }
        for name, array in numbers.items():
            self.place(self._at[name], _numbers_view(array))

    def set_lengths(self, capacity: int, before: int, new: int) -> None:
        """Set the number of stored positions and of new tokens, the same for all sequences.  Does
        nothing if they are unchanged, because all layers of a model have the same lengths."""
        if self._lengths == (capacity, before, new):
            return
        self._sums[0] = self._steps * new
        self._sums[1] = self._steps * (before + new)
        self._starts[0] = before
        self._starts[1] = self._steps[:-1] * capacity
        self._ones[1], self._ones[2] = new, before + new
        self._lengths, self._spans = (capacity, before, new), None

    def set_spans(
        self, capacity: int, before: int, tokens: int, spans: torch.Tensor
    ) -> np.ndarray | None:
        """Set lengths for each sequence, from spans that are the same in all layers.  Returns how
        many of the last `tokens` columns of each sequence are tokens; None: all."""
        step = capacity, before, tokens
        if self._spans is not spans or self._step != step:
            first = numbers_of(spans)[:, 0]
            if first.max() <= before:
                self._new, new = None, tokens
            else:
                self._new = new = tokens - np.clip(first - before, 0, tokens)
            self._set_each_length(capacity, np.maximum(before - first, 0), new)
            self._spans, self._step = spans, step
        return self._new

    def _set_each_length(self, capacity: int, before: np.ndarray, new: np.ndarray | int) -> None:
        lengths = before + new
        self._sums[0, 1:] = self._steps[1:] * new if isinstance(new, int) else new.cumsum()
        lengths.cumsum(out=self._sums[1, 1:])
        self._starts[0] = before
        self._starts[1] = self._steps[:-1] * capacity
        self._ones[1], self._ones[2] = np.max(new), lengths.max()
        self._lengths = None

    def place_cache(self, rows: Rows, types: dict[str, str]) -> None:
        """Place the tensors of a cache.  For one plan, either all rows have scales or none do."""
        if rows.views is None:
            tensors = {
                "cache": (rows.keys, types["T2"]),
                "scale": (rows.key_scales, types["T3"]),
                "value_cache": (rows.values, types["value_T2"]),
                "value_scale": (rows.value_scales, types["value_T3"]),
            }
            rows.views = [
                (self._at[name], _rows_view(tensor, declared))
                for name, (tensor, declared) in tensors.items()
                if tensor is not None
            ]
        for index, view in rows.views:
            self.place(index, view)

    def place_tokens(self, name: str, states: torch.Tensor) -> torch.Tensor:
        """Place [B, heads, S, dim] as [B * S, heads, dim].  The caller keeps the result alive."""
        index, layout = self._at[name], (states.shape, states.stride(), states.dtype)
        if layout == self._seen.get(name):
            self._structs[index].data = states.data_ptr()
            return states
        self._seen.pop(name, None)
        batch, heads, tokens, dim = states.shape
        of_batch, of_head, of_token, of_dim = states.stride()
        if of_dim != 1 or (batch > 1 and tokens > 1 and of_batch != tokens * of_token):
            states = states.transpose(1, 2).contiguous()
            of_batch, of_head, of_token = tokens * heads * dim, dim, heads * dim
        else:
            self._seen[name] = layout
        strides = (of_batch if tokens == 1 else of_token, of_head, 1)
        shape = (batch * tokens, heads, dim)
        self.place(index, (states.data_ptr(), (shape, strides, dtype_of(states.dtype))))
        return states

    def place_packed(self, name: str, states: torch.Tensor) -> None:
        """Place [tokens, heads, dim]."""
        self._seen.pop(name, None)
        self.place_named(name, view_of(states))

    def place_output(self, output: torch.Tensor, rows: int, heads: int, dim: int) -> None:
        """Place [B, S, heads, dim] as [B * S, heads, dim], which has the same layout in memory."""
        layout = (rows, heads, dim), (), dtype_of(output.dtype)
        self.place(self._at["attn_output"], (output.data_ptr(), layout))


def _rows_view(rows: torch.Tensor, declared: str) -> View:
    """Return a view in cache layout 3, with one sequence after the other."""
    heads, batch, capacity, _ = rows.shape
    return storage_view(rows, dtype_named(declared), (1, 1, heads, batch * capacity))


def _run_all(call: _StoreCall, query, key, value, output) -> None:
    """Run on columns that are all tokens."""
    kept = (
        call.place_tokens("query", query),
        call.place_tokens("current_key", key),
        call.place_tokens("current_value", value),
    )
    batch, tokens, heads, dim = output.shape
    call.place_output(output, batch * tokens, heads, dim)
    call.run()
    del kept


def _run_padded(call: _StoreCall, query, key, value, output, new: np.ndarray) -> None:
    """Run on the last new[b] columns of each sequence b.  The others give results of 0."""
    tokens = query.shape[2]
    is_token = torch.from_numpy(np.arange(tokens) >= (tokens - new)[:, None])
    query, key, value = (states.transpose(1, 2)[is_token] for states in (query, key, value))
    packed = output.new_empty((len(query), *output.shape[2:]))
    call.place_packed("query", query)
    call.place_packed("current_key", key)
    call.place_packed("current_value", value)
    call.place_named("attn_output", view_of(packed))
    call.run()
    output.zero_()
    output[is_token] = packed


def _run_store(call: _StoreCall, query, key, value, output, capacity, start, spans) -> None:
    tokens, new = query.shape[2], None
    if spans is None:
        call.set_lengths(capacity, start, tokens)
    else:
        new = call.set_spans(capacity, start, tokens, spans)
    if new is None:
        _run_all(call, query, key, value, output)
    else:
        _run_padded(call, query, key, value, output, new)


def _with_window(scores: Scores, spans: torch.Tensor | None) -> Scores:
    """Add the window of the spans to the scores: some models pass their window only to the mask."""
    window = 0 if spans is None else int(numbers_of(spans)[0, 2])
    return scores._replace(window=window) if window not in (0, scores.window) else scores


def _check_room(rows: Rows, columns: int, window: int) -> None:
    ring = 0 if rows.most else rows.keys.shape[2]
    if 0 < rows.most < columns:
        raise ValueError(
            f"{columns} tokens in a cache with max_cache_len {rows.most}; accepted: at most that "
            "many"
        )
    if ring and not 0 < window <= ring:
        raise ValueError(
            f"a window of {window or 'all positions'} on a layer that keeps {ring}; accepted: a "
            "window as the config of the KvmillCache has it"
        )


def store_and_attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    rows: Rows,
    start: int,
    spans: torch.Tensor | None,
    sinks: torch.Tensor | None,
    scores: Scores,
) -> torch.Tensor:
    """Store key and value [B, G, S, D] from column `start` on, and attend to the cache.

    query: [B, H, S, D]; spans: int64 [B, 1, 1, 3], or None if there is no padding; sinks: [H].
    Returns [B, S, H, E].  Raises KvmillError, TypeError, and ValueError if there is no room; then
    nothing is stored."""
    batch, num_heads, tokens, dim = query.shape
    num_kv_heads, _, capacity, _ = rows.keys.shape
    scores = _with_window(scores, spans)
    _check_room(rows, start + tokens, scores.window)
    heads = num_heads, num_kv_heads, dim, value.shape[-1]
    calls = _store_calls(query.dtype, heads, scores, rows.how, 0 if rows.most else capacity)
    output = query.new_empty((batch, tokens, num_heads, value.shape[-1]))
    call = calls.take()
    try:
        call.set_batch(batch)
        call.place_cache(rows, calls.plan._types)
        call.place_named("sinks", None if sinks is None else view_of(sinks))
        _run_store(call, query, key, value, output, capacity, start, spans)
    finally:
        calls.give_back(call)
    return output


# ---- Attending ----


class _AttendCall(TensorCall):
    """A call of CacheAttend."""

    _at = {name: i for i, name in enumerate(CacheAttend._names)}

    def place_states(self, name: str, states: torch.Tensor) -> torch.Tensor:
        """Place [B, H, tokens, dim] as [B, tokens, H, dim].  The caller keeps the result alive."""
        if states.stride(-1) != 1 or 0 in states.stride():
            states = states.contiguous()
        view = states.transpose(1, 2)
        self.place(self._at[name], view_of(view))
        return states

    def place_numbers(self, name: str, numbers: np.ndarray | None) -> None:
        self.place(self._at[name], None if numbers is None else _numbers_view(numbers))


def _ranges(spans: np.ndarray, tokens: int, is_causal: bool, window: int) -> np.ndarray:
    """Return the first row that each query sees, and the end of its rows: [B * S, 2]."""
    first, end = spans[:, :1], spans[:, 1:2]
    at = end - tokens + np.arange(tokens)
    last = at + 1 if is_causal else np.broadcast_to(end, at.shape)
    first = np.maximum(first, at - window + 1 if window else 0)
    first = np.clip(first, 0, last)
    return np.ascontiguousarray(np.stack([first, last], -1).reshape(-1, 2), np.int64)


def _visible_rows(spans, query, key, is_causal: bool, window: int) -> dict[str, np.ndarray]:
    """Return the name and the array of the tensor that selects the visible rows."""
    if spans is None:
        return {"lengths": np.full(query.shape[0], key.shape[2])}
    return {"ranges": _ranges(numbers_of(spans), query.shape[2], is_causal, window)}


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    sinks: torch.Tensor | None,
    scores: Scores,
    is_causal: bool,
) -> torch.Tensor:
    """Attend to key [B, G, T, D] and value [B, G, T, E].

    query: [B, H, S, D].  mask: None: the queries are at the last S of T positions.  Otherwise spans,
    int64 [B, 1, 1, 3]; or booleans (true: visible) or numbers to add that broadcast to [B, H, S, T]
    and hide all that is to be hidden.  Returns [B, S, H, E].  Raises KvmillError and TypeError."""
    batch, num_heads, tokens, dim = query.shape
    has_spans = mask is not None and mask.dtype == torch.int64
    mask, spans = (None, mask) if has_spans else (mask, None)
    scores = _with_window(scores, spans)
    scores = scores if mask is None else scores._replace(window=0)
    heads = num_heads, key.shape[1], dim, value.shape[-1]
    causal = is_causal and mask is None
    calls = _attend_calls(query.dtype, heads, scores, causal, mask is not None and mask.dtype)
    output = torch.empty((batch, tokens, num_heads, value.shape[-1]), dtype=query.dtype)
    rows = _visible_rows(spans, query, key, is_causal, scores.window)
    call = calls.take()
    try:
        kept = [call.place_states("query", query), call.place_states("key", key)]
        kept.append(call.place_states("value", value))
        call.place_states("attn_output", output.transpose(1, 2))
        call.place_named("sinks", None if sinks is None else view_of(sinks))
        call.place_named("attn_mask", None if mask is None else view_of(mask))
        for name in ("lengths", "ranges"):
            call.place_numbers(name, rows.get(name))
        call.run()
    finally:
        calls.give_back(call)
    return output


# ---- torch.library ----

_library = torch.library.Library("kvmill", "DEF")
_SCORES = "float scale, float softcap, int window, str math"
_library.define(
    "store_and_attend(Tensor query, Tensor key, Tensor value, Tensor(a!) keys, "
    "Tensor(b!)? key_scales, Tensor(c!) values, Tensor(d!)? value_scales, Tensor start, "
    "Tensor? spans, Tensor? sinks, str key_format, int key_group, str value_format, "
    f"int value_group, int most, {_SCORES}) -> Tensor"
)
_library.define(
    "attend(Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? sinks, bool is_causal, "
    f"{_SCORES}) -> Tensor"
)
_library.define(
    "make_spans(Tensor? attention_mask, Tensor offset, SymInt batch, SymInt tokens, "
    "SymInt kv_offset, int window) -> Tensor"
)


def _store_and_attend_op(
    query,
    key,
    value,
    keys,
    key_scales,
    values,
    value_scales,
    start,
    spans,
    sinks,
    key_format,
    key_group,
    value_format,
    value_group,
    most,
    *scores,
):
    how = Format(key_format, key_group), Format(value_format, value_group)
    rows = Rows(keys, key_scales, values, value_scales, how, most)
    return store_and_attend(query, key, value, rows, int(start), spans, sinks, Scores(*scores))


def _attend_op(query, key, value, mask, sinks, is_causal, *scores):
    return attend(query, key, value, mask, sinks, Scores(*scores), is_causal)


def _make_spans_op(attention_mask, offset, batch, tokens, kv_offset, window):
    spans = make_spans(attention_mask, int(offset), batch, tokens, kv_offset, window)
    if spans is None:
        raise ValueError(
            "attention_mask with 0 after 1, or too short, in torch.compile; accepted: padding on "
            "the left"
        )
    return spans


def _fake_spans(attention_mask, offset, batch, *_):
    return offset.new_empty((batch, 1, 1, 3), dtype=torch.int64)


def _fake(query, key, value, *_):
    batch, heads, tokens, _ = query.shape
    return query.new_empty((batch, tokens, heads, value.shape[-1]))


for _name, _function, _shape in (
    ("store_and_attend", _store_and_attend_op, _fake),
    ("attend", _attend_op, _fake),
    ("make_spans", _make_spans_op, _fake_spans),
):
    _library.impl(_name, _function, "CPU")
    torch.library.register_fake(f"kvmill::{_name}", _shape, lib=_library)
