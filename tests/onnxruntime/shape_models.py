"""The models whose shapes are all tried (shapes.py): those of the other tests, with open dims.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import cache_step
import numpy as np
import onnx
import onnx_attention
from group_query import INPUTS, OUTPUTS
from kvmill.onnx_attention import ATTENTION_INPUTS
from models import FLOAT, FLOAT16, INT64, decoder, make_model, value
from onnx import TensorProto, helper
from shapes import Arrays, Dims, Shapes
from steps import step_model

INT8, UINT8, INT32, BOOL = TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32, TensorProto.BOOL
HEADS, KV_HEADS, DIM = 4, 2, 32
PLACES = 24
WIDE = (0, 1, 2, 4)  # of a mask: less than there is, and as much


# ---- Attention ----


def attention_model(
    opset: int = 23, *, packed: bool = False, mask: tuple[int, str] | None = None, past: bool = False,
    nonpad: bool = False, **attributes: object,
) -> onnx.ModelProto:  # fmt: skip
    """mask: its type, and the names of its dims, which are open."""

    def rows(name: str, heads: int, rows: str, dim: int) -> onnx.ValueInfoProto:
        return value(name, FLOAT, ["batch", rows, heads * dim] if packed else ["batch", heads, rows, dim])

    inputs = [rows("Q", HEADS, "queries", DIM), rows("K", KV_HEADS, "keys", DIM)]
    inputs.append(rows("V", KV_HEADS, "keys", 8))
    if mask is not None:
        inputs.append(value("attn_mask", mask[0], mask[1].split()))
    if past:
        inputs += [value(f"past_{n}", FLOAT, ["batch", KV_HEADS, "past", d]) for n, d in (("key", DIM), ("value", 8))]
    if nonpad:
        inputs.append(value("nonpad_kv_seqlen", INT64, ["batch"]))
    given = {graph_input.name for graph_input in inputs}
    names = [name if name in given else "" for name in ATTENTION_INPUTS]
    while not names[-1]:
        names.pop()
    results = ["Y", "present_key", "present_value"] if past else ["Y"]
    if packed:
        attributes |= {"q_num_heads": HEADS, "kv_num_heads": KV_HEADS}
    node = helper.make_node("Attention", names, results, "attention", **attributes)
    return make_model([node], inputs, [value(name) for name in results], opset)


def nonpad_lengths(dims: Dims) -> Iterator[Arrays]:
    for length in sorted({0, 1, dims["keys"] // 2, dims["keys"], dims["keys"] + 1}):
        yield {"nonpad_kv_seqlen": np.full(dims["batch"], length)}


def evaluated(model: onnx.ModelProto, arrays: Arrays) -> Arrays:
    """Return what the ONNX project's evaluator computes."""
    attributes = {a.name: helper.get_attribute_value(a) for a in model.graph.node[0].attribute}
    inputs = [arrays.get(name) for name in ATTENTION_INPUTS]
    outputs = tuple(output.name for output in model.graph.output)
    case = onnx_attention.Case(model.opset_import[0].version, inputs, outputs, attributes)
    return dict(zip(outputs, onnx_attention.reference(case), strict=True))


def attention_shapes() -> dict[str, Shapes]:
    """The CPU provider refuses empty batches, queries and keys.  With a past and one query, it does
    not hide the keys after it."""

    def make(integers: Callable = lambda _: iter([{}]), numbers: Mapping | None = None, **words: object) -> Shapes:
        model = attention_model(**words)
        return Shapes(model, integers, numbers or {}, judge=partial(evaluated, model))

    few = {"batch": (1, 3), "keys": (1, 3), "queries": (1, 3), "past": (0, 1)}
    return {
        "Attention, rank 4": make(),
        "Attention, rank 3, causal": make(packed=True, is_causal=1),
        "Attention with a past": make(past=True, is_causal=1, softcap=2.0),
        "Attention with a past, rank 3": make(past=True, packed=True),
        "Attention with valid lengths": make(nonpad_lengths, opset=24, nonpad=True, is_causal=1),
        "Attention with a mask of rank 4": make(
            numbers=few | {"a": (0, 1, 3), "b": (0, 1, HEADS), "c": (0, 1, 3), "d": WIDE},
            mask=(FLOAT, "a b c d"), past=True,
        ),
        "Attention with a mask of rank 3": make(numbers=few | {"b": (1, HEADS), "d": WIDE}, mask=(BOOL, "b c d")),
        "Attention with a mask of rank 2": make(numbers={"d": WIDE}, mask=(BOOL, "c d"), is_causal=1),
        "Attention with a mask of rank 1": make(numbers={"d": WIDE}, mask=(FLOAT, "d"), opset=24),
    }  # fmt: skip


# ---- TensorScatter ----


def step_lengths(dims: Dims) -> Iterator[Arrays]:
    batch, rows, capacity = dims["batch"], dims["rows"], dims["capacity"]
    for start in sorted({0, 1, max(capacity - rows, 0), capacity}):
        for length in sorted({0, start + rows, capacity}):
            yield {"write_indices": np.full(batch, start), "nonpad": np.full(batch, length)}


def step_shapes() -> dict[str, Shapes]:
    four, tokens = {"capacity": (0, 1, 4)}, {"tokens": (0, 1, 3), "batch": (0, 1, 2), "capacity": (0, 4)}

    def decoder_lengths(dims: Dims) -> Iterator[Arrays]:
        return step_lengths(dims | {"rows": dims["tokens"]})

    return {
        "a step": Shapes(step_model(8, 2, 64), step_lengths, four),
        "a step in float16": Shapes(step_model(8, 2, 64, FLOAT16), step_lengths, four, tolerance=8e-3),
        "a step on a ring": Shapes(step_model(8, 2, 64, mode="circular"), step_lengths, four),
        "a decoder": Shapes(decoder(), decoder_lengths, tokens, tolerance=1e-4),
    }


# ---- GroupQueryAttention ----


def group_query_model(extra: Mapping[str, tuple], *, kind: int = FLOAT, cache: int | None = None, **attributes: object):
    """extra: more inputs, by their types and shapes; None: one that is left out.  cache: another
    type, with two codes to a byte if it is uint8."""
    width = {UINT8: DIM // 2}.get(cache, DIM)
    rows, caches = (kind, ["batch", "rows", KV_HEADS * DIM]), (cache or kind, ["batch", KV_HEADS, "capacity", width])
    given = {
        "query": (kind, ["batch", "tokens", HEADS * DIM]), "key": rows, "value": rows,
        "past_key": caches, "past_value": caches,
        "seqlens_k": (INT32, ["batch"]), "total_sequence_length": (INT32, []), **extra,
    }  # fmt: skip
    given = {name: given[name] for name in INPUTS if given.get(name) is not None}
    names = [name if name in given else "" for name in INPUTS]
    heads = {"num_heads": HEADS, "kv_num_heads": KV_HEADS}
    domain = "com.microsoft"
    node = helper.make_node("GroupQueryAttention", names, OUTPUTS, "attend", domain=domain, **heads, **attributes)
    inputs = [value(name, *what) for name, what in given.items()]
    outputs = [value("output", kind), *(value(name, cache or kind) for name in OUTPUTS[1:])]
    model = make_model([node], inputs, outputs)
    model.opset_import.append(helper.make_opsetid(domain, 1))
    return model


ROTARY = {f"{name}_cache": (FLOAT, [PLACES, DIM // 2]) for name in ("cos", "sin")}
SCALE = {f"{name}_scale": (FLOAT, [1]) for name in "kv"}
CHANNELS = {f"{name}_scale": (FLOAT, [1, KV_HEADS, 1, DIM]) for name in "kv"}
PACKED = {"query": (FLOAT, ["batch", "tokens", (HEADS + 2 * KV_HEADS) * DIM]), "key": None, "value": None}
APART = {"past_key": None, "past_value": None}


def quantised(bits: int, kind: str) -> dict[str, object]:
    return {"kv_cache_bit_width": bits, "k_quant_type": kind, "v_quant_type": kind}


def lengths_of(
    dims: Dims, *, odd: bool = False, counted: bool = False, positions: bool = False
) -> Iterator[Arrays]:
    """Yield lengths from none to more than there is room for, the same and others for each entry,
    and totals.

    odd: also with other numbers of keys than 0 and one for each query"""
    batch, tokens, capacity = dims["batch"], dims["tokens"], dims.get("capacity", 0)
    if not odd and dims.get("rows", tokens) not in (0, tokens):
        return
    for length in sorted({0, 1, tokens, capacity, capacity + tokens, max(capacity - 1, 0)}):
        for step in range(min(batch, 2)) or (0,):
            lengths = np.maximum(length - step * np.arange(batch), min(length, 1)).astype(np.int32)
            for total in sorted({length, capacity, length + 1}):
                if dims.get("bias", total) not in (total, max(total - 1, 0)):
                    continue
                arrays = {"seqlens_k": lengths - 1, "total_sequence_length": np.array(total, np.int32)}
                if counted:
                    arrays["query_seqlens"] = np.minimum(max(tokens - 1, 0), lengths).astype(np.int32)
                if positions:
                    arrays["position_ids"] = np.tile(np.arange(tokens) + 2, (batch, 1))
                yield arrays


def known_rows(window: int, name: str, array: np.ndarray, arrays: Arrays) -> list[np.ndarray]:
    """Return the parts of an output that are of valid tokens; window: of a cache that holds only
    that."""
    parts = []
    for b, last in enumerate(arrays["seqlens_k"]):
        length = int(last) + 1
        if name == "output":
            rows = min(length, array.shape[1])
            parts.append(array[b, : arrays["query_seqlens"][b] if "query_seqlens" in arrays else rows])
        elif window:
            step = array.shape[2] - window + 1
            parts.append(array[b, :, : length - max(-(-(length - array.shape[2]) // step), 0) * step])
        else:
            parts.append(array[b, :, :length])
    return parts


def one_by_one(window: int, arrays: Arrays) -> list[tuple[Arrays, Callable]]:
    """Return a call for each entry, without padding and with a past of just its keys: the CPU
    provider runs several entries with several tokens only in a first prompt, and wants room for
    padding.  It takes no call without tokens."""
    batch, tokens = arrays["query"].shape[:2]
    return [
        (entry_of(window, arrays, b), lambda array, _, b=b: array[b : b + 1])
        for b in range(batch if tokens > 0 else 0)
    ]


BY_TOKEN = ("query", "key", "value", "position_ids")
BY_ENTRY = (*BY_TOKEN, "past_key", "past_value", "seqlens_k", "query_seqlens")


def entry_of(window: int, arrays: Arrays, b: int) -> Arrays:
    length, tokens = int(arrays["seqlens_k"][b]) + 1, arrays["query"].shape[1]
    stored = arrays.get("key", arrays["query"]).shape[1] > 0
    valid = int(arrays["query_seqlens"][b]) if "query_seqlens" in arrays else min(length, tokens)
    entry = {n: a[b : b + 1] if n in BY_ENTRY else a for n, a in arrays.items()}
    if valid > 0:
        entry |= {n: a[:, :valid] for n, a in entry.items() if n in BY_TOKEN}
    if "attention_bias" in entry:
        entry["attention_bias"] = entry["attention_bias"][:, :, : entry["query"].shape[1], :length]
    if not window:
        past, room = length - valid if stored else length, 0 if valid > 0 else tokens
        spare = ((0, 0), (0, 0), (0, room), (0, 0))
        entry |= {n: np.pad(a[:, :, :past], spare) for n, a in entry.items() if n.startswith("past_")}
    entry["total_sequence_length"] = np.array(length, np.int32)
    return entry


def group_query_shapes() -> dict[str, Shapes]:
    numbers = {"batch": (0, 1, 2), "tokens": (0, 1, 3), "rows": (0, 1, 3)}
    numbers |= {"capacity": (0, 1, 4, 6), "bias": (0, 1, 4, 7)}

    def make(extra: Mapping | None = None, *, window: int = 0, tolerance: float = 2e-5,
             **attributes: object) -> Shapes:  # fmt: skip
        given = extra or {}
        words = {"odd": extra is None, "counted": "query_seqlens" in given, "positions": "position_ids" in given}
        integers = partial(lengths_of, **words)
        return Shapes(
            group_query_model(given, **attributes), integers, numbers, partial(known_rows, window),
            partial(one_by_one, window), crashes=True, tolerance=tolerance,
        )  # fmt: skip

    bias = {"attention_bias": (FLOAT, [1, HEADS, "tokens", "bias"])}
    counts = {"query_seqlens": (INT32, ["batch"])}
    ids = {"position_ids": (INT64, ["batch", "tokens"])}
    sliding = {"local_window_size": 3, "sliding_window_cache": 1}
    return {
        "GroupQueryAttention": make(),
        "GroupQueryAttention, rotated": make(ROTARY, do_rotary=1),
        "GroupQueryAttention, rotated, with positions": make(ROTARY | ids, do_rotary=1, rotary_interleaved=1),
        "GroupQueryAttention, packed": make(PACKED | ROTARY, do_rotary=1),
        "GroupQueryAttention without a past": make(APART),
        "GroupQueryAttention with a window and a soft-cap": make({}, local_window_size=2, softcap=2.0),
        "GroupQueryAttention, not causal": make({}, causal=0),
        "GroupQueryAttention with a bias and sinks": make(bias | {"head_sink": (FLOAT, [HEADS])}),
        "GroupQueryAttention with padding": make(counts | ROTARY, do_rotary=1),
        "GroupQueryAttention in float16": make({}, kind=FLOAT16, tolerance=8e-3),
        "GroupQueryAttention in int8": make(SCALE, cache=INT8, tolerance=1e-3, **quantised(8, "PER_TENSOR")),
        "GroupQueryAttention in int4": make(CHANNELS, cache=UINT8, tolerance=1e-3, **quantised(4, "PER_CHANNEL")),
        "GroupQueryAttention, a cache of a window": make(window=3, **sliding),
        "GroupQueryAttention, a cache of a window, rotated, with padding": make(
            ROTARY | counts, window=3, do_rotary=1, smooth_softmax=1, **sliding
        ),
        "GroupQueryAttention, a cache of a window in int4": make(
            CHANNELS, window=3, cache=UINT8, tolerance=1e-3, **sliding, **quantised(4, "PER_CHANNEL")
        ),
    }


# ---- Caches in blocks ----


def in_blocks(arrays: Arrays) -> Arrays:
    """Return arrays with caches in blocks, of keys in q8_0 and of values in q4_0."""
    formats = {"past_key": "q8_0", "past_K": "q8_0", "past_value": "q4_0", "past_V": "q4_0"}

    def encoded(cache: np.ndarray, kind: str) -> np.ndarray:
        one = cache_step.ENCODE[kind](np.zeros(cache.shape[-1:], np.float32))
        return cache_step.ENCODE[kind](cache) if cache.size else np.zeros((*cache.shape[:-1], *one.shape), np.uint8)

    return arrays | {n: encoded(arrays[n], kind) for n, kind in formats.items() if n in arrays}


def block_shapes() -> dict[str, Shapes]:
    """Outputs are compared with those of the model before `kvmill rewrite --cache`."""
    formats, near = "q8_0,q4_0", {"tolerance": 0.5, "encode": in_blocks}
    step = Shapes(cache_step.step_model(), step_lengths, {"capacity": (0, 1, 4)}, compared=("Y",), **near)
    query = replace(group_query_shapes()["GroupQueryAttention, rotated"], compared=("output",), **near)
    window = replace(group_query_shapes()["GroupQueryAttention, a cache of a window"], compared=("output",), **near)
    named = {"CacheStep": step, "GroupQueryAttention in blocks": query, "a cache of a window in blocks": window}
    return {
        name: replace(shapes, model=cache_step.rewrite(shapes.model, formats), plain=shapes.model)
        for name, shapes in named.items()
    }


def all_shapes() -> dict[str, Shapes]:
    return attention_shapes() | step_shapes() | group_query_shapes() | block_shapes()
