"""A replacement for jax.nn.dot_product_attention, and attention over caches.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from math import prod
from typing import Any

import jax
import jax.numpy as jnp

from ..plans import Pack
from .arguments import (
    FLOATS,
    array_of,
    group_of,
    heads_of,
    lengths_of,
    refuse,
    scale_of,
    windows_of,
)
from .calls import Number, Portable, call
from .mapping import Arrays, Shared, over_batch

_ROWS = (*FLOATS, "int8", "uint8", "float8_e4m3fn", "float8_e5m2")


def _four_dims(name: str, given: Any) -> jax.Array:
    array = jnp.asarray(given)
    if array.ndim not in (3, 4):
        refuse(f"{name}.shape", array.shape, "3 or 4 dims")
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def _mask_of(mask: Any, bias: Any, scores: tuple[int, ...]) -> jax.Array | None:
    """Combine mask and bias into one array: numbers to add, or booleans.  Its last dim has the size
    of the scores'."""
    given = {"mask": mask, "bias": bias}
    arrays = {}
    for name, array in given.items():
        if array is None:
            continue
        array = jnp.asarray(array)
        array = array.reshape((1,) * (4 - array.ndim) + array.shape)
        accepted = ("bool",) if name == "mask" else FLOATS
        if array.dtype.name not in accepted:
            refuse(f"{name}.dtype", array.dtype.name, ", ".join(accepted))
        fits = array.ndim == 4 and all(
            own in (1, dim) for own, dim in zip(array.shape, scores, strict=True)
        )
        if not fits:
            refuse(f"{name}.shape", array.shape, f"4 dims that broadcast to {scores}")
        arrays[name] = jnp.broadcast_to(array, (*array.shape[:3], scores[3]))
    if len(arrays) == 2:
        return jnp.where(arrays["mask"], arrays["bias"], -jnp.inf)
    return next(iter(arrays.values()), None)


def _positions(batch: int, queries: int) -> jax.Array:
    """Return positions: query i is at position i, whatever the number of keys, as in jax.nn."""
    return jnp.tile(jnp.arange(queries, dtype=jnp.int32), (batch, 1))


def _run_attend(
    batched: Arrays, shared: Shared, value_dim: int, lse: bool, attributes: dict[str, Number], pack
) -> tuple[jax.Array, ...]:
    query = batched["query"]
    operands = {name: array.seen() for name, array in batched.items()} | shared
    if "positions" in batched:
        operands["positions"] = batched["positions"].seen(prod(query.shape[:2]))
    results = {"attn_output": query.result((*query.shape[:-1], value_dim), query.dtype)}
    if lse:
        results["lse"] = query.result(query.shape[:-1], jnp.float32)
    return tuple(call("CacheAttend", operands, results, pack=pack, **attributes).values())


def _attend(
    name: str,
    arrays: dict[str, jax.Array],
    mask: jax.Array | None,
    sinks: Any,
    attributes: dict[str, Number],
    pack: Pack | Portable | None,
    value_dim: int,
    lse: bool = False,
) -> tuple[jax.Array, ...]:
    """A mask that is the same for the whole batch is passed as a shared array."""
    query, shared = arrays["query"], {}
    if mask is not None:
        (arrays if mask.shape[0] == query.shape[0] else shared)["attn_mask"] = mask
    if sinks is not None:
        shared["sinks"] = array_of("sinks", sinks, query.shape[2:3], ("float32", query.dtype.name))
    attributes = {"num_heads": query.shape[2], "key_head_dim": query.shape[3], **attributes}

    def run(batched: Arrays, shared: Shared) -> tuple[jax.Array, ...]:
        return _run_attend(batched, shared, value_dim, lse, attributes, pack)

    return over_batch(name, run, arrays, shared)


def _attributes(given: dict[str, Any], kv_heads: int, value_dim: int) -> dict[str, Number]:
    left, right = windows_of(given["local_window_size"])
    return {
        "num_kv_heads": kv_heads,
        "value_head_dim": value_dim,
        "softmax_scale": scale_of(given["scale"]),
        "softcap": float(given["softcap"]),
        "is_causal": int(given["is_causal"]),
        "left_window_size": left,
        "right_window_size": right,
        "math": given["math"],
    }


def _rows_of(given: dict[str, Any]) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return query, key and value with a batch dim."""
    query, key, value = (_four_dims(name, given[name]) for name in ("query", "key", "value"))
    batch, keys, kv_heads, dim = key.shape
    array_of("query", query, (batch, "T", "N", dim))
    array_of("key", key, ("B", "S", "K", "H"), (query.dtype.name,))
    array_of("value", value, (batch, keys, kv_heads, "E"), (query.dtype.name,))
    return query, key, value


def _without_padding(lengths: Any, output: jax.Array, lse: list[jax.Array]) -> tuple[Any, Any]:
    """Set the results of queries at or after a length to 0 and -infinity."""
    batch, queries = output.shape[:2]
    given = lengths_of("query_seq_lengths", lengths, batch)
    real = (jnp.arange(queries) < given[:, None])[:, :, None]
    return jnp.where(real[..., None], output, 0), [jnp.where(real, a, -jnp.inf) for a in lse]


def _dot_product(given: dict[str, Any]) -> Any:
    if given["implementation"] is not None:
        refuse("implementation", repr(given["implementation"]), "None")
    query, key, value = _rows_of(given)
    batch, keys, kv_heads, _ = key.shape
    heads, queries, value_dim = heads_of(query, kv_heads), query.shape[1], value.shape[3]
    length = given["key_value_seq_lengths"]
    lengths = lengths_of("key_value_seq_lengths", keys if length is None else length, batch)
    arrays = {"query": query, "key": key, "value": value, "lengths": lengths}
    attributes = _attributes(given, kv_heads, value_dim)
    if given["is_causal"] or attributes["left_window_size"] >= 0:
        arrays["positions"] = _positions(batch, queries)
    seen = _mask_of(given["mask"], given["bias"], (batch, heads, queries, keys))
    output, *lse = _attend(
        *("dot_product_attention", arrays, seen, given["sinks"], attributes, given["pack"]),
        value_dim=value_dim,
        lse=given["return_residual"],
    )
    if given["query_seq_lengths"] is not None:
        output, lse = _without_padding(given["query_seq_lengths"], output, lse)
    shape = (*jnp.asarray(given["query"]).shape[:-1], value_dim)
    if not given["return_residual"]:
        return output.reshape(shape)
    return output.reshape(shape), lse[0].astype(key.dtype).reshape(shape[:-1])


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
    softcap: float = 0.0,
    sinks: Any = None,
    math: str = "f32",
    pack: Pack | Portable | None = None,
) -> Any:
    """jax.nn.dot_product_attention with kvmill's kernels: the same arguments, layouts and result.

    query: [B, T, N, H] or [T, N, H].  key, value: [B, S, K, H] and [B, S, K, E], or without B.  All
        have the same type, float32, float16 or bfloat16.  N is a multiple of K; E may differ from H.
    bias, mask: numbers that are added, and booleans that are true for visible keys; 4 dims that
        broadcast to [B, N, T, S].
    is_causal, local_window_size: query i is at position i.
    query_seq_lengths, key_value_seq_lengths: [B].  implementation: None.
    return_residual: also return the logarithms of the sums, [B, T, N].

    jax.nn does not have these: softcap is applied before bias and masks; sinks [N] are scores without
    values; math is as in kvmill.h; kernels come from pack, by default the one of kvmill.jax.use.

    A query that sees no key gives 0 and -infinity, whereas jax.nn gives the mean of all values.
    Raises ValueError for arguments that are not accepted, NotImplementedError if differentiated.
    """
    return _dot_product(locals())


def _side(name: str, rows: jax.Array, scale: Any, cache_format: str | None, dim: int) -> dict:
    """Return the attributes that describe the format of K or V."""
    if cache_format is not None:
        return {f"{name}_cache_format": cache_format, f"{name}_T2": rows.dtype.name}
    bits = {"int8": 8, "uint8": 4}.get(rows.dtype.name, 0)
    if (bits > 0) != (scale is not None):
        accepted = "scales of int8 and uint8 (two codes of 4 bits each); of other types None"
        refuse(f"{name}_scale", "None" if scale is None else "given", accepted)
    types = {f"{name}_T2": "int4" if bits == 4 else rows.dtype.name}
    if bits == 0:
        return types
    types[f"{name}_T3"] = scale.dtype.name
    group = group_of(f"{name}_scale", scale, dim)
    return types | {f"{name}_quant_bit": bits, f"{name}_quant_group": group}


def _check_width(name: str, rows: jax.Array, cache_format: str | None, dim: int) -> None:
    """The widths of blocks are checked in a run."""
    codes = 2 if rows.dtype.name == "uint8" else 1
    if cache_format is None and rows.shape[-1] * codes != dim:
        refuse(f"{name}.shape", rows.shape, f"rows of {dim} numbers, as a head has")


def _cached(given: dict[str, Any]) -> jax.Array:
    query = array_of("query", given["query"], ("B", "T", "N", "H"))
    batch, queries, _, dim = query.shape
    key = array_of("key", given["key"], (batch, "S", "K", "W"), _ROWS)
    keys, kv_heads = key.shape[1:3]
    value = array_of("value", given["value"], (batch, keys, kv_heads, "W"), _ROWS)
    arrays = {"query": query, "key": key, "value": value}
    arrays["lengths"] = lengths_of("lengths", given["lengths"], batch)
    for name in ("key_scale", "value_scale"):
        if given[name] is not None:
            arrays[name] = array_of(name, given[name], (batch, keys, kv_heads, "H / group"))
    value_dim = given["value_head_dim"] or (dim if value.dtype.name == "uint8" else value.shape[3])
    attributes = _attributes(given, kv_heads, value_dim)
    for name, rows, size in (("key", key, dim), ("value", value, value_dim)):
        scale = arrays.get(f"{name}_scale")
        _check_width(name, rows, given["cache_format"], size)
        attributes |= _side(name, rows, scale, given["cache_format"], size)
    scores = batch, heads_of(query, kv_heads), queries, keys
    seen = _mask_of(given["mask"], given["bias"], scores)
    return _attend("attend", arrays, seen, given["sinks"], attributes, given["pack"], value_dim)[0]


def attend(
    query: Any,
    key: Any,
    value: Any,
    lengths: Any,
    *,
    key_scale: Any = None,
    value_scale: Any = None,
    cache_format: str | None = None,
    value_head_dim: int | None = None,
    bias: Any = None,
    mask: Any = None,
    scale: float | None = None,
    is_causal: bool = True,
    local_window_size: int | tuple[int, int] | None = None,
    softcap: float = 0.0,
    sinks: Any = None,
    math: str = "f32",
    pack: Pack | Portable | None = None,
) -> jax.Array:
    """Attention over caches in any format (CacheAttend).  Returns [B, T, N, E].

    query: [B, T, N, H], at the last T of each sequence's positions.
    key, value: [B, S, K, ...], in one of these forms: the query's type; another float type; int8, or
        uint8 with two 4-bit codes in each byte, together with key_scale and value_scale
        [B, S, K, H / group]; or the blocks of a cache_format, as uint8.
    lengths: the number of valid rows of each sequence, [B], or one number for all.  Other rows are
        not read.
    value_head_dim: E, if the rows of V do not determine it; default: H.

    The other arguments are those of dot_product_attention.
    """
    return _cached(locals())
