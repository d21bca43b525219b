"""Cache stores and decode steps, in place if XLA allows it, for example in jax.lax.scan.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from math import prod
from typing import Any

import jax
import jax.numpy as jnp

from ..plans import Pack
from .arguments import FLOATS, array_of, group_of, heads_of, lengths_of, refuse, scale_of
from .attention import _mask_of
from .calls import Number, Portable, call
from .mapping import Arrays, Batched, Shared, over_batch


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
    """Return the cache with new rows (TensorScatter along axis 1).

    cache: [B, capacity, ...], of any type of 8 bits or more.
    update: [B, rows, ...].
    write_indices: [B] or one number: the slot of the first new row of each sequence.
    circular: slots wrap around.

    The cache is updated in place if nothing else uses it afterwards.  A row outside of the cache is
    refused, and then nothing is stored.
    """
    cache, update = jnp.asarray(cache), jnp.asarray(update)
    if cache.ndim < 2:
        refuse("cache.shape", cache.shape, "2 dims or more")
    array_of("update", update, (cache.shape[0], "rows", *cache.shape[2:]), (cache.dtype.name,))
    indices = lengths_of("write_indices", write_indices, cache.shape[0])

    def run(batched: Arrays, shared: Shared) -> tuple[jax.Array, ...]:
        operands = {name: array.seen() for name, array in batched.items()}
        results = {"present_cache": batched["past_cache"].updated()}
        aliases = {"present_cache": "past_cache"}
        attributes = {"axis": 1, "mode": _mode(circular)}
        found = call("TensorScatter", operands, results, aliases=aliases, pack=pack, **attributes)
        return tuple(found.values())

    arrays = {"past_cache": cache, "update": update, "write_indices": indices}
    return over_batch("store", run, arrays, {})[0]


def _flat(array: Batched) -> tuple[int, ...]:
    """Reshape [B, T, heads, dim] to [B, T, heads * dim]."""
    return *array.shape[:2], prod(array.shape[2:])


def _run_step(
    batched: Arrays, shared: Shared, attributes: dict[str, Number], pack: Any
) -> tuple[jax.Array, ...]:
    rows = ("Q", "K", "V", "past_key", "past_value")
    operands: dict[str, Any] = {
        name: array.seen(*(_flat(array) if name in rows else ()))
        for name, array in batched.items()
    }
    query, keys, values = (batched[name] for name in ("Q", "past_key", "past_value"))
    shape = (*query.shape[:-1], values.shape[-1])
    results = {
        "Y": query.result(shape, query.dtype, *shape[:2], shape[2] * shape[3]),
        "present_key": keys.updated(*_flat(keys)),
        "present_value": values.updated(*_flat(values)),
    }
    aliases = {"present_key": "past_key", "present_value": "past_value"}
    return tuple(
        call(
            *("TensorScatterAttention", operands | shared, results),
            aliases=aliases,
            pack=pack,
            **attributes,
        ).values()
    )


def _step_arrays(given: dict[str, Any]) -> dict[str, jax.Array]:
    query = array_of("query", given["query"], ("B", "T", "N", "H"))
    batch, queries, _, dim = query.shape
    types = (query.dtype.name,)
    key = array_of("key", given["key"], (batch, queries, "K", dim), types)
    value = array_of("value", given["value"], (*key.shape[:3], "E"), types)
    rows = (batch, "capacity", key.shape[2], dim)
    keys = array_of("key_cache", given["key_cache"], rows, types)
    values = array_of("value_cache", given["value_cache"], (*keys.shape[:3], value.shape[3]), types)
    arrays = {"Q": query, "K": key, "V": value, "past_key": keys, "past_value": values}
    arrays["write_indices"] = lengths_of("write_indices", given["write_indices"], batch)
    if given["key_value_seq_lengths"] is not None:
        valid = lengths_of("key_value_seq_lengths", given["key_value_seq_lengths"], batch)
        arrays["nonpad_kv_seqlen"] = valid
    return arrays


def _window(given: dict[str, Any]) -> dict[str, Number]:
    window = given["left_window_size"]
    if window is None:
        return {}
    if window < 0:
        refuse("left_window_size", window, "None, 0 or more")
    return {"left_window_size": window}


def _decode(given: dict[str, Any]) -> tuple[jax.Array, ...]:
    arrays = _step_arrays(given)
    batch, queries = arrays["Q"].shape[:2]
    capacity, kv_heads = arrays["past_key"].shape[1:3]
    heads = heads_of(arrays["Q"], kv_heads)
    shared = {}
    seen = _mask_of(given["mask"], given["bias"], (batch, heads, queries, capacity))
    if seen is not None:
        (arrays if seen.shape[0] == batch else shared)["attn_mask"] = seen
    attributes: dict[str, Number] = {
        "q_num_heads": heads,
        "kv_num_heads": kv_heads,
        "scale": scale_of(given["scale"]),
        "softcap": float(given["softcap"]),
        "is_causal": int(given["is_causal"]),
        "mode": _mode(given["circular"]),
        **_window(given),
    }

    def run(batched: Arrays, shared: Shared) -> tuple[jax.Array, ...]:
        return _run_step(batched, shared, attributes, given["pack"])

    return over_batch("decode_step", run, arrays, shared)


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
    """Store new rows, then attend to the caches.  Returns (output, key_cache, value_cache).

    query: [B, T, N, H].
    key, value: [B, T, K, H] and [B, T, K, E].
    key_cache, value_cache: [B, capacity, K, H] and [B, capacity, K, E], of the query's type.
    write_indices: [B] or one number.  Query i of sequence b is at position write_indices[b] + i.
    key_value_seq_lengths: [B], the number of valid keys after the step, if the T tokens end with
        padding.
    bias, mask: as for dot_product_attention, where S is the capacity.
    left_window_size: how many keys before its own a query sees.
    circular: the caches are rings.

    The caches are updated in place if nothing else uses them afterwards: if a jax.lax.scan carries
    them, or if they are donated to jax.jit.  A step that does not fit is refused, and then nothing is
    stored.
    """
    return _decode(locals())


# ---- Caches in formats of their own ----


def _starts(start: Batched, tokens: int, capacity: int) -> dict[str, jax.Array]:
    """Return the numbers that describe a dynamic batch in which all sequences have `tokens` new
    tokens."""
    flat, dtype = start.array.reshape(-1), start.dtype
    batch = flat.shape[0]
    return {
        "start_pos": flat,
        "seqstarts": jnp.arange(batch + 1, dtype=dtype) * tokens,
        "kvstarts": jnp.concatenate([jnp.zeros(1, dtype), jnp.cumsum(flat + tokens)]),
        "cachestarts": jnp.arange(batch, dtype=dtype) * capacity,
        "decoding_batches": jnp.array([batch if tokens == 1 else 0], dtype),
        "max_seqlen": jnp.array([tokens], dtype),
        "max_kvlen": jnp.array([capacity], dtype),
    }


def _run_cache_step(
    batched: Arrays, shared: Shared, attributes: dict[str, Number], pack: Any
) -> tuple[jax.Array, ...]:
    """The op sees the tokens of all sequences one after the other, and the rows of all caches as
    one layer."""
    query, cache = batched["query"], batched["cache"]
    batch, tokens = query.shape[:2]
    capacity = cache.shape[1]
    kept = [name for name in ("cache", "scale") if name in batched]
    operands: dict[str, Any] = {
        name: batched[name].seen(batch * tokens, *batched[name].shape[2:])
        for name in ("query", "current_key", "current_value")
    }
    rows = {name: (batch * capacity, 1, *batched[name].shape[2:]) for name in kept}
    operands |= {name: batched[name].seen(*rows[name]) for name in kept}
    operands |= _starts(batched["start_pos"], tokens, capacity)
    results = {"attn_output": query.result(query.shape, query.dtype, *operands["query"].shape)}
    results |= {name: batched[name].updated(*rows[name]) for name in kept}
    op = "dynamic_batching.MultiHeadCacheAttention"
    return tuple(call(op, operands, results, pack=pack, **attributes).values())


def _scales(given: dict[str, Any], cache: jax.Array) -> dict[str, jax.Array]:
    scales = given["scale_cache"]
    if (cache.dtype.name == "int8") != (scales is not None):
        accepted = "scales for a cache of int8, None for any other"
        refuse("scale_cache", "None" if scales is None else "given", accepted)
    if scales is None:
        return {}
    return {"scale": array_of("scale_cache", scales, (*cache.shape[:4], "H / group"))}


def _cache_arrays(given: dict[str, Any]) -> dict[str, jax.Array]:
    query = array_of("query", given["query"], ("B", "T", "N", "H"))
    batch, tokens, _, dim = query.shape
    types = (query.dtype.name,)
    key = array_of("key", given["key"], (batch, tokens, "K", dim), types)
    value = array_of("value", given["value"], key.shape, types)
    blocks = given["cache_format"] is not None
    shape = batch, "capacity", 2, key.shape[2], "W" if blocks else dim
    cache = array_of("cache", given["cache"], shape, ("uint8",) if blocks else (*FLOATS, "int8"))
    start = lengths_of("start_pos", given["start_pos"], batch)
    arrays = {"query": query, "current_key": key, "current_value": value, "cache": cache}
    return {**arrays, **_scales(given, cache), "start_pos": start}


def _decode_formatted(given: dict[str, Any]) -> tuple[jax.Array, ...]:
    arrays = _cache_arrays(given)
    dim, kv_heads = arrays["query"].shape[3], arrays["current_key"].shape[2]
    attributes: dict[str, Number] = {
        "num_heads": heads_of(arrays["query"], kv_heads),
        "num_kv_heads": kv_heads,
        "head_dim": dim,
        "softmax_scale": scale_of(given["scale"]),
        "softcap": float(given["softcap"]),
        "math": given["math"],
        **_window(given),
    }
    if given["cache_format"] is not None:
        attributes["cache_format"] = given["cache_format"]
    if "scale" in arrays:
        attributes |= {"quant_bit": 8, "quant_group": group_of("scale_cache", arrays["scale"], dim)}

    def run(batched: Arrays, shared: Shared) -> tuple[jax.Array, ...]:
        return _run_cache_step(batched, shared, attributes, given["pack"])

    return over_batch("cache_step", run, arrays, {})


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
    """A decode step over a cache in another format (MultiHeadCacheAttention, causal).

    query: [B, T, N, H].
    key, value: [B, T, K, H].
    cache: [B, capacity, 2, K, W].  With a float type, W is H, and scale_cache is None.  With int8
        codes, W is H, and scale_cache is [B, capacity, 2, K, H / group].  With uint8, W is the size in
        bytes of a row in a cache_format ("q8_0", "q4_0"), and scale_cache is None.
    start_pos: [B] or one number: how many tokens precede the new ones.  Rows that would not fit are
        refused as "max_kvlen", the capacity, and nothing is stored.

    Returns (output, cache), or (output, cache, scale_cache).  They are updated in place like those of
    decode_step.
    """
    return _decode_formatted(locals())
