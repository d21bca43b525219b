"""Stores into caches, and steps of decoding: in place where XLA lets them, as in a jax.lax.scan.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..plans import Pack
from .arguments import FLOATS, array_of, heads_of, lengths_of, refuse, scale_of
from .attention import _mask_of
from .calls import Number, Portable, call
from .mapping import Arrays, over_batch


def _like(array: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def _mode(circular: bool) -> str:
    return "circular" if circular else "linear"


def store(
    cache: Any,
    update: Any,
    write_indices: Any,
    *,
    circular: bool = False,
    pack: Pack | Portable | None = None,
) -> jax.Array:
    """The cache with new rows in it: TensorScatter along axis 1.

    cache [B, capacity, ...] of any type of 8 bits or more; update [B, rows, ...]; write_indices
    [B] or one number: the slot of each sequence's first new row.  circular: slots wrap around.
    In place where the cache is not used any more.  A row outside is refused, and nothing stored.
    """
    cache, update = jnp.asarray(cache), jnp.asarray(update)
    if cache.ndim < 2:
        refuse("cache.shape", cache.shape, "2 dims or more")
    array_of("update", update, (cache.shape[0], "rows", *cache.shape[2:]), (cache.dtype.name,))
    indices = lengths_of("write_indices", write_indices, cache.shape[0])

    def run(batched: Arrays, shared: Arrays) -> tuple[jax.Array, ...]:
        results = {"present_cache": _like(batched["past_cache"])}
        aliases = {"present_cache": "past_cache"}
        attributes = {"axis": 1, "mode": _mode(circular)}
        return tuple(
            call(
                "TensorScatter", batched, results, aliases=aliases, pack=pack, **attributes
            ).values()
        )

    arrays = {"past_cache": cache, "update": update, "write_indices": indices}
    return over_batch("store", run, arrays, {})[0]


def _flat_rows(array: jax.Array) -> jax.Array:
    """[B, T, heads, dim] as [B, T, heads * dim]."""
    return array.reshape(*array.shape[:2], -1)


def _run_step(
    batched: Arrays, shared: Arrays, attributes: dict[str, Number], pack: Any
) -> tuple[jax.Array, ...]:
    rows = ("Q", "K", "V", "past_key", "past_value")
    flat = {name: _flat_rows(a) if name in rows else a for name, a in batched.items()}
    dim = batched["V"].shape[-1]
    shape = (*batched["Q"].shape[:-1], dim)
    results = {
        "Y": jax.ShapeDtypeStruct((*shape[:2], shape[2] * dim), batched["Q"].dtype),
        "present_key": _like(flat["past_key"]),
        "present_value": _like(flat["past_value"]),
    }
    aliases = {"present_key": "past_key", "present_value": "past_value"}
    found = call(
        *("TensorScatterAttention", flat | shared, results),
        aliases=aliases,
        pack=pack,
        **attributes,
    )
    return (
        found["Y"].reshape(shape),
        found["present_key"].reshape(batched["past_key"].shape),
        found["present_value"].reshape(batched["past_value"].shape),
    )


def decode_step(
    query: Any,
    key: Any,
    value: Any,
    key_cache: Any,
    value_cache: Any,
    write_indices: Any,
    *,
    bias: Any = None,
    mask: Any = None,
    scale: float | None = None,
    is_causal: bool = True,
    key_value_seq_lengths: Any = None,
    left_window_size: int | None = None,
    circular: bool = False,
    softcap: float = 0.0,
    pack: Pack | Portable | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Store new rows, then attend over what the caches have: (output, key_cache, value_cache).

    query [B, T, N, H]; key [B, T, K, H], value [B, T, K, E]; caches [B, capacity, K, H] and
    [B, capacity, K, E], of query's type.  write_indices [B] or one number: query i of sequence b is
    at position write_indices[b] + i.  key_value_seq_lengths [B]: valid keys after the step, where T
    has padding at its end; None: there is none.  bias, mask: as of dot_product_attention, with the
    capacity for S.  left_window_size: keys before its own that a query sees.  circular: the caches
    are rings of the last positions.

    The caches are updated in place where they are not used any more: carried by a jax.lax.scan, or
    donated to jax.jit.  A step that does not fit is refused, and nothing stored.
    """
    query = array_of("query", query, ("B", "T", "N", "H"))
    batch, queries, _, dim = query.shape
    types = (query.dtype.name,)
    key = array_of("key", key, (batch, queries, "K", dim), types)
    kv_heads = key.shape[2]
    value = array_of("value", value, (batch, queries, kv_heads, "E"), types)
    key_cache = array_of("key_cache", key_cache, (batch, "capacity", kv_heads, dim), types)
    capacity = key_cache.shape[1]
    rows = (batch, capacity, kv_heads, value.shape[3])
    value_cache = array_of("value_cache", value_cache, rows, types)
    heads = heads_of(query, kv_heads)
    arrays = {"Q": query, "K": key, "V": value, "past_key": key_cache, "past_value": value_cache}
    arrays["write_indices"] = lengths_of("write_indices", write_indices, batch)
    if key_value_seq_lengths is not None:
        valid = lengths_of("key_value_seq_lengths", key_value_seq_lengths, batch)
        arrays["nonpad_kv_seqlen"] = valid
    shared = {}
    seen = _mask_of(mask, bias, (batch, heads, queries, capacity))
    if seen is not None:
        (arrays if seen.shape[0] == batch else shared)["attn_mask"] = seen
    attributes: dict[str, Number] = {
        "q_num_heads": heads,
        "kv_num_heads": kv_heads,
        "scale": scale_of(scale),
        "softcap": float(softcap),
        "is_causal": int(is_causal),
        "mode": _mode(circular),
    }
    if left_window_size is not None:
        if left_window_size < 0:
            refuse("left_window_size", left_window_size, "None, 0 or more")
        attributes["left_window_size"] = left_window_size

    def run(batched: Arrays, shared: Arrays) -> tuple[jax.Array, ...]:
        return _run_step(batched, shared, attributes, pack)

    return over_batch("decode_step", run, arrays, shared)


# ---- Caches in formats of their own ----


def _run_cache_step(
    batched: Arrays, shared: Arrays, attributes: dict[str, Number], pack: Any
) -> tuple[jax.Array, ...]:
    """Sequences one after the other: dynamic batching, of which all have as many new tokens."""
    query, cache = batched["query"], batched["cache"]
    batch, tokens = query.shape[:2]
    capacity = cache.shape[1]
    kept = [name for name in ("cache", "scale") if name in batched]
    start = batched["start_pos"]
    starts = jnp.concatenate([jnp.zeros(1, start.dtype), jnp.cumsum(start + tokens)])
    operands = {
        name: batched[name].reshape(batch * tokens, *batched[name].shape[2:])
        for name in ("query", "current_key", "current_value")
    }
    for name in kept:  # [rows, one layer, K and V, heads, elements]
        array = batched[name]
        operands[name] = array.reshape(batch * capacity, 1, *array.shape[2:])
    operands |= {
        "start_pos": start,
        "seqstarts": jnp.arange(batch + 1, dtype=start.dtype) * tokens,
        "kvstarts": starts,
        "cachestarts": jnp.arange(batch, dtype=start.dtype) * capacity,
        "decoding_batches": jnp.array([batch if tokens == 1 else 0], start.dtype),
        "max_seqlen": jnp.array([tokens], start.dtype),
        "max_kvlen": jnp.array([capacity], start.dtype),
    }
    results = {"attn_output": _like(operands["query"])}
    results |= {name: _like(operands[name]) for name in kept}
    op = "dynamic_batching.MultiHeadCacheAttention"
    found = call(op, operands, results, pack=pack, **attributes)
    output = found["attn_output"].reshape(query.shape)
    return output, *(found[name].reshape(batched[name].shape) for name in kept)


def cache_step(
    query: Any,
    key: Any,
    value: Any,
    cache: Any,
    scale_cache: Any,
    start_pos: Any,
    *,
    cache_format: str | None = None,
    scale: float | None = None,
    left_window_size: int | None = None,
    softcap: float = 0.0,
    math: str = "f32",
    pack: Pack | Portable | None = None,
) -> tuple[jax.Array, ...]:
    """A step over a cache that is kept in another format: MultiHeadCacheAttention, causal.

    query [B, T, N, H]; key, value [B, T, K, H].  cache [B, capacity, 2, K, W]: of a float type, W
    is H and scale_cache None; of int8 codes, W is H and scale_cache [B, capacity, 2, K, H / group];
    of uint8, the W bytes of a cache_format's blocks ("q8_0", "q4_0"), scale_cache None.  start_pos
    [B] or one number: tokens before these.

    Returns (output, cache), or (output, cache, scale_cache): in place as decode_step.
    """
    query = array_of("query", query, ("B", "T", "N", "H"))
    batch, tokens, _, dim = query.shape
    types = (query.dtype.name,)
    key = array_of("key", key, (batch, tokens, "K", dim), types)
    kv_heads = key.shape[2]
    value = array_of("value", value, key.shape, types)
    cache_types = ("uint8",) if cache_format else (*FLOATS, "int8")
    width = "W" if cache_format else dim
    cache = array_of("cache", cache, (batch, "capacity", 2, kv_heads, width), cache_types)
    arrays = {"query": query, "current_key": key, "current_value": value, "cache": cache}
    attributes: dict[str, Number] = {
        "num_heads": heads_of(query, kv_heads),
        "num_kv_heads": kv_heads,
        "head_dim": dim,
        "softmax_scale": scale_of(scale),
        "softcap": float(softcap),
        "math": math,
        "left_window_size": -1 if left_window_size is None else left_window_size,
    }
    if cache_format:
        attributes["cache_format"] = cache_format
    if (cache.dtype.name == "int8") != (scale_cache is not None):
        given = "None" if scale_cache is None else "given"
        refuse("scale_cache", given, "scales for a cache of int8, None for any other")
    if scale_cache is not None:
        shape = (*cache.shape[:4], "H / group")
        arrays["scale"] = array_of("scale_cache", scale_cache, shape)
        attributes |= {"quant_bit": 8, "quant_group": dim // arrays["scale"].shape[-1]}
    arrays["start_pos"] = lengths_of("start_pos", start_pos, batch)

    def run(batched: Arrays, shared: Arrays) -> tuple[jax.Array, ...]:
        return _run_cache_step(batched, shared, attributes, pack)

    return over_batch("cache_step", run, arrays, {})
