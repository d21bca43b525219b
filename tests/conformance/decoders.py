"""Decoders in JAX: steps that store rows in a cache and attend, in loops and without.

PROGRAMS maps a name to a function that returns JAX's lowered program, or an exported one; other
modules add to it.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

LAYERS, BATCH, CAPACITY, HEADS, SIZE, WIDTH, WORDS = 2, 2, 16, 2, 4, 8, 20

PROGRAMS: dict[str, Callable[[], Any]] = {}


def program(make: Callable[[], Any]) -> Callable[[], Any]:
    PROGRAMS[make.__name__] = make
    return make


def shape(*dims: Any, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, dtype)


def lowered(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    return jax.jit(function, **options).lower(*arguments)


# ---- Decoders ----


def attention(query: Any, keys: Any, values: Any, position: Any) -> Any:
    """Attend from [batch, heads, size] to the rows of a cache up to a position."""
    scores = jnp.einsum("bhd,bthd->bht", query, keys) / np.sqrt(SIZE)
    seen = jnp.arange(CAPACITY)[None, None, :] <= position[:, None, None]
    weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1)
    return jnp.einsum("bht,bthd->bhd", weights, values)


def layer(weights: Any, cache: Any, x: Any, position: Any, store: Callable[..., Any]) -> Any:
    query, key, value = (
        (x @ w).reshape(BATCH, HEADS, SIZE) for w in (weights["q"], weights["k"], weights["v"])
    )
    keys, values = store(cache[0], key, position), store(cache[1], value, position)
    x = x + attention(query, keys, values, position).reshape(BATCH, WIDTH) @ weights["o"]
    return x + jax.nn.gelu(x @ weights["up"], approximate=False) @ weights["up"].T, (keys, values)


def store_by_scatter(cache: Any, row: Any, position: Any) -> Any:
    return cache.at[jnp.arange(BATCH), position].set(row)


def store_by_slice(cache: Any, row: Any, position: Any) -> Any:
    return lax.dynamic_update_slice(cache, row[:, None], (0, position[0], 0, 0))


def store_by_row(cache: Any, row: Any, position: Any) -> Any:
    """Give each sequence an update of its own."""
    return jax.vmap(lambda c, r, p: lax.dynamic_update_slice(c, r[None], (p, 0, 0)))(
        cache, row, position
    )


def weights_of(*layers: int) -> Any:
    return {name: shape(*layers, WIDTH, WIDTH) for name in ("q", "k", "v", "o", "up")}


def caches_of(*layers: int) -> Any:
    return (shape(*layers, BATCH, CAPACITY, HEADS, SIZE),) * 2


EMBEDDING = shape(WORDS, WIDTH)
TOKENS = shape(BATCH, dtype=jnp.int32)


def next_token(embedding: Any, x: Any) -> Any:
    return jnp.argmax(x @ embedding.T, axis=-1).astype(jnp.int32)


def scanned_step(store: Any, embedding: Any, weights: Any, caches: Any, token: Any, at: Any) -> Any:
    def one(x: Any, inputs: Any) -> Any:
        return layer(*inputs, x, at, store)

    x, caches = lax.scan(one, embedding[token], (weights, caches))
    return next_token(embedding, x), caches


def unrolled_step(embedding: Any, weights: Any, caches: Any, token: Any, at: Any) -> Any:
    x, new = embedding[token], []
    for w, cache in zip(weights, caches):
        x, cache = layer(w, cache, x, at, store_by_scatter)
        new.append(cache)
    return next_token(embedding, x), new


STEP = (EMBEDDING, weights_of(LAYERS), caches_of(LAYERS), TOKENS, TOKENS)
UNROLLED = (EMBEDDING, [weights_of()] * LAYERS, [caches_of()] * LAYERS, TOKENS, TOKENS)


@program
def layers_in_a_scan() -> Any:
    return lowered(partial(scanned_step, store_by_scatter), *STEP)


@program
def donated_caches() -> Any:
    return lowered(partial(scanned_step, store_by_slice), *STEP, donate_argnums=2)


@program
def vmapped_stores() -> Any:
    return lowered(partial(scanned_step, store_by_row), *STEP)


@program
def unrolled() -> Any:
    return lowered(unrolled_step, *UNROLLED)


@program
def loop_over_tokens() -> Any:
    def decode(embedding: Any, weights: Any, caches: Any, token: Any, at: Any) -> Any:
        def one(carry: Any, _: None) -> Any:
            token, caches, at = carry
            token, caches = scanned_step(store_by_scatter, embedding, weights, caches, token, at)
            return (token, caches, at + 1), token

        return lax.scan(one, (token, caches, at), None, length=5)

    return lowered(decode, *STEP)


@program
def while_until_end() -> Any:
    def decode(embedding: Any, weights: Any, caches: Any, token: Any, at: Any) -> Any:
        def one(state: Any) -> Any:
            token, caches, at = state
            token, caches = scanned_step(store_by_slice, embedding, weights, caches, token, at)
            return token, caches, at + 1

        return lax.while_loop(lambda state: jnp.any(state[0] != 0), one, (token, caches, at))

    return lowered(decode, *STEP)


@program
def gradient() -> Any:
    def loss(embedding: Any, *others: Any) -> Any:
        weights, caches, token, at = others
        x = embedding[token]
        for i in range(LAYERS):
            w, cache = jax.tree.map(lambda a, i=i: a[i], (weights, caches))
            x, _ = jax.checkpoint(partial(layer, store=store_by_scatter))(w, cache, x, at)
        return jnp.sum(jnp.take_along_axis(x @ embedding.T, token[:, None], axis=1))

    return lowered(jax.value_and_grad(loss, argnums=(0, 1)), *STEP)


@program
def paged_attention() -> Any:
    def step(pages: Any, table: Any, lengths: Any, query: Any, row: Any) -> Any:
        at = lengths // 4
        pages = pages.at[jnp.take_along_axis(table, at[:, None], 1)[:, 0], lengths % 4].set(row)
        keys = jnp.take(pages, table, axis=0, mode="clip").reshape(BATCH, -1, HEADS, SIZE)
        return pages, attention(query, keys, keys, lengths)

    row = shape(BATCH, HEADS, SIZE)
    table = shape(BATCH, CAPACITY // 4, dtype=jnp.int32)
    return lowered(step, shape(9, 4, HEADS, SIZE), table, TOKENS, row, row, donate_argnums=0)


@program
def ring_buffer() -> Any:
    def step(cache: Any, row: Any, at: Any) -> Any:
        return lax.dynamic_update_index_in_dim(cache, row, at % CAPACITY, axis=1), jnp.roll(
            cache, at, axis=1
        )

    cache = shape(BATCH, CAPACITY, HEADS, SIZE, dtype=jnp.bfloat16)
    return lowered(
        step, cache, shape(BATCH, HEADS, SIZE, dtype=jnp.bfloat16), shape(dtype=jnp.int32)
    )


@program
def quantised_cache() -> Any:
    def step(codes: Any, scales: Any, row: Any, at: Any) -> Any:
        scale = jnp.max(jnp.abs(row), axis=-1) / 127
        code = jnp.round(row / scale[..., None]).astype(jnp.int8)
        return codes.at[:, at].set(code), scales.at[:, at].set(scale, mode="drop")

    codes = shape(BATCH, CAPACITY, HEADS, SIZE, dtype=jnp.int8)
    return lowered(
        step,
        codes,
        shape(BATCH, CAPACITY, HEADS),
        shape(BATCH, HEADS, SIZE),
        shape(dtype=jnp.int32),
    )
