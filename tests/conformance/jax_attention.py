"""kvmill.jax in jitted JAX: attention compared with jax.nn.dot_product_attention and with float64,
decoding in place in scans, jax.vmap, and refusals.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import kvmill
import kvmill.jax as kvmill_jax
import ml_dtypes
import numpy as np
from cache_rows import side_of
from jax import lax
from tap import Tap, refused

CASES = 6
FORMATS = ("bfloat16", "int8", "int4", "q8_0")
HEADS = [(6, 2, 24), (8, 2, 64), (5, 1, 20), (4, 4, 32)]
# The error of one rounding, for outputs no larger than the largest value, and the error of float32
# sums.
ROUNDING = {"float32": 0.0, "float16": 2.0**-11, "bfloat16": 2.0**-8}
SUMS = 3e-5


def close(found: Any, expected: Any, largest: float, dtype: str = "float32") -> None:
    found, expected = (np.asarray(a, np.float64) for a in (found, expected))
    assert found.shape == expected.shape, f"{found.shape}, expected {expected.shape}"
    error = np.abs(found - expected).max(initial=0)
    bound = (SUMS + ROUNDING[dtype]) * largest
    assert error <= bound, f"error {error}, bound {bound}"


def normal(rng: np.random.Generator, *shape: int, dtype: str = "float32") -> jax.Array:
    return jnp.asarray(rng.standard_normal(shape), dtype)


def attention(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, seen: np.ndarray, added: Any = 0.0
) -> np.ndarray:
    """Attention in float64: [B, T, N, H] and [B, S, K, H]; seen, added: [B, N, T, S]."""
    groups = query.shape[2] // key.shape[2]
    key, value = (np.repeat(np.asarray(a, np.float64), groups, 2) for a in (key, value))
    scores = np.einsum("btnh,bsnh->bnts", np.asarray(query, np.float64), key)
    scores = np.where(seen, scores / np.sqrt(query.shape[3]) + added, -np.inf)
    most = scores.max(-1, keepdims=True, initial=-1e300)
    weights = np.exp(scores - most)
    weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-300)
    return np.einsum("bnts,bsnh->btnh", weights, value)


# ---- Against jax.nn ----


class Drawn:
    """Arguments of dot_product_attention, and which keys its queries see."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.dtype = str(rng.choice(list(ROUNDING)))
        heads, kv_heads, dim = HEADS[rng.integers(len(HEADS))]
        batch, queries, keys = (int(rng.integers(1, most)) for most in (4, 9, 40))
        shapes = (queries, heads), (keys, kv_heads), (keys, kv_heads)
        self.arrays = [normal(rng, batch, *shape, dim, dtype=self.dtype) for shape in shapes]
        self.named: dict[str, Any] = {}
        self.seen = np.ones((batch, heads, queries, keys), bool)
        i, j = np.arange(queries)[:, None], np.arange(keys)
        if rng.random() < 0.4:
            self._see("is_causal", True, j <= i)
        if rng.random() < 0.4:
            left, right = map(int, rng.integers(0, 6, 2))
            self._see("local_window_size", (left, right), (i - left <= j) & (j <= i + right))
        if rng.random() < 0.4:
            lengths = rng.integers(1, keys + 1, batch).astype(np.int32)
            self._see("key_value_seq_lengths", lengths, j < lengths[:, None, None, None])
        if rng.random() < 0.4:
            mask = rng.random([rng.choice([1, dim]) for dim in self.seen.shape[:3]] + [keys]) < 0.8
            self._see("mask", jnp.asarray(mask), mask)
        if rng.random() < 0.4:
            self.named["bias"] = normal(rng, 1, heads, rng.choice([1, queries]), keys)
        if rng.random() < 0.4:
            lengths = rng.integers(0, queries + 1, batch).astype(np.int32)
            self._see("query_seq_lengths", lengths, i < lengths[:, None, None, None])
        if rng.random() < 0.3:
            self.named["scale"] = np.float32(0.25)

    def _see(self, name: str, value: Any, seen: np.ndarray) -> None:
        self.named[name] = value
        self.seen &= seen


def like_jax(rng: np.random.Generator) -> None:
    drawn = Drawn(rng)
    ours = jax.jit(partial(kvmill_jax.dot_product_attention, return_residual=True, **drawn.named))
    output, lse = ours(*drawn.arrays)
    wide = [array.astype(jnp.float32) for array in drawn.arrays]
    plain = partial(jax.nn.dot_product_attention, return_residual=True, **drawn.named)
    theirs = jax.jit(plain)(*wide)
    some = drawn.seen.any(-1).swapaxes(1, 2)  # if no key is visible, jax.nn returns the mean
    assert output.dtype == lse.dtype == drawn.dtype
    close(output, np.where(some[..., None], theirs[0], 0), float(abs(wide[2]).max()), drawn.dtype)
    assert (np.asarray(lse, np.float32)[~some] == -np.inf).all()
    close(np.where(some, lse, 0), np.where(some, theirs[1], 0), 16, drawn.dtype)


def three_dims(rng: np.random.Generator) -> None:
    """Without a batch dim; with values of another size; with the caller's pack and arithmetic."""
    query, key, value = normal(rng, 5, 4, 32), normal(rng, 9, 4, 32), normal(rng, 9, 4, 24)
    found = kvmill_jax.dot_product_attention(
        query, key, value, is_causal=True, pack=kvmill_jax.PORTABLE, math="f32"
    )
    seen = np.tri(5, 9, dtype=bool)
    expected = attention(query[None], key[None], value[None], seen)[0]
    close(found, expected, float(abs(value).max()))


def as_jax(array: np.ndarray) -> np.ndarray:
    """Convert to a JAX array; bfloat16 is passed as its bits."""
    return array.view(ml_dtypes.bfloat16) if array.dtype == np.uint16 else array


def of_format(rng: np.random.Generator, word: str) -> None:
    """Attend to caches in the layout of other programs."""
    heads, kv_heads, dim, keys = 8, 2, 64, 23
    key, value = (side_of(rng, word, (2 * keys, kv_heads, dim)) for _ in range(2))
    rows = [as_jax(side.rows).reshape(2, keys, kv_heads, -1) for side in (key, value)]
    scales = {
        name: as_jax(side.scales).reshape(2, keys, kv_heads, -1)
        for name, side in (("key_scale", key), ("value_scale", value))
        if side.scales is not None
    }
    blocks = {"cache_format": word} if word == "q8_0" else {}
    lengths = np.array([keys, 7], np.int32)
    query = normal(rng, 2, 3, heads, dim)
    run = partial(kvmill_jax.attend, value_head_dim=dim, **scales, **blocks)
    position = lengths[:, None] - 3 + np.arange(3)
    seen = np.arange(keys) <= position[:, None, :, None]
    values = [side.values.reshape(2, keys, kv_heads, dim) for side in (key, value)]
    expected = attention(query, *values, seen)
    close(jax.jit(run)(query, *rows, lengths), expected, float(abs(values[1]).max()))


# ---- Decoding ----

LAYERS, TOKENS, CAPACITY = 4, 64, 80


def model(rng: np.random.Generator, heads: int, kv_heads: int, dim: int) -> list[dict[str, Any]]:
    width = heads * dim
    sizes = {"q": width, "k": kv_heads * dim, "v": kv_heads * dim, "o": width}
    return [
        {name: normal(rng, width, size) / width**0.5 for name, size in sizes.items()}
        for _ in range(LAYERS)
    ]


def decoder(step: Callable[..., Any], layers: list[dict[str, Any]], shape: tuple) -> Callable:
    """Decode tokens one after the other in a scan that carries the caches.  Each token depends on
    the previous one."""
    heads, kv_heads, dim = shape

    def token(carry: Any, _: None) -> Any:
        x, caches, position = carry
        kept = []
        for weights, (keys, values) in zip(layers, caches, strict=True):
            split = [(x @ weights[n]).reshape(-1, 1, c, dim) for n, c in zip("qkv", (heads, kv_heads, kv_heads), strict=True)]
            output, *updated = step(*split, keys, values, position)
            x = x + output.reshape(x.shape) @ weights["o"]
            x = x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True))
            kept.append(tuple(updated))
        return (x, kept, position + 1), x

    return lambda x, caches: lax.scan(token, (x, caches, jnp.int32(0)), length=TOKENS)


def plain_step(query: Any, key: Any, value: Any, keys: Any, values: Any, position: Any) -> Any:
    keys = lax.dynamic_update_slice_in_dim(keys, key, position, 1)
    values = lax.dynamic_update_slice_in_dim(values, value, position, 1)
    lengths = jnp.full(query.shape[0], position + 1, jnp.int32)
    output = jax.nn.dot_product_attention(query, keys, values, key_value_seq_lengths=lengths)
    return output, keys, values


def new_caches(batch: int, kv_heads: int, dim: int) -> list[tuple[jax.Array, jax.Array]]:
    shape = batch, CAPACITY, kv_heads, dim
    return [(jnp.zeros(shape), jnp.zeros(shape)) for _ in range(LAYERS)]


def places(caches: Any) -> list[int]:
    return [cache.unsafe_buffer_pointer() for cache in jax.tree.leaves(caches)]


def copies(text: str, shape: str) -> list[str]:
    """Return the instructions of a compiled program that create a new array of this shape."""
    made = re.compile(rf"= {re.escape(shape)}\S* (copy|fusion)\(")
    return [line for line in text.splitlines() if made.search(line)]


def decodes(rng: np.random.Generator) -> None:
    shape = heads, kv_heads, dim = 8, 2, 64
    layers, x = model(rng, *shape), normal(rng, 2, heads * dim)
    ours = jax.jit(decoder(kvmill_jax.decode_step, layers, shape), donate_argnums=1)
    caches = new_caches(2, kv_heads, dim)
    before = places(caches)
    program = ours.lower(x, caches).compile()
    found = copies(program.as_text(), f"f32[2,{CAPACITY},{kv_heads},{dim}]")
    assert not found, f"the scan copies caches: {found}"
    (_, caches, _), outputs = program(x, caches)
    assert sorted(places(caches)) == sorted(before), "caches have moved"
    plain = jax.jit(decoder(plain_step, layers, shape))
    (_, expected_caches, _), expected = plain(x, new_caches(2, kv_heads, dim))
    close(outputs, expected, 10)
    for cache, other in zip(jax.tree.leaves(caches), jax.tree.leaves(expected_caches), strict=True):
        close(cache, other, 10)


def decodes_codes(rng: np.random.Generator) -> None:
    """Decode with an int8 cache, in scans of a step that jax.vmap maps, compared with float64 over
    its codes."""
    batch, capacity, kv_heads, dim, group, tokens = 3, 12, 2, 32, 8, 9
    cache = jnp.zeros((2, batch, capacity, 2, kv_heads, dim), jnp.int8)
    scales = jnp.zeros((*cache.shape[:-1], dim // group))
    rows = [normal(rng, tokens, 2, batch, 1, h, dim) for h in (4, kv_heads, kv_heads)]
    start = jnp.array([0, 2, 3], jnp.int32)

    def step(carry: Any, new: Any) -> Any:
        cache, scales, position = carry
        run = jax.vmap(partial(kvmill_jax.cache_step, start_pos=position))
        output, cache, scales = run(*new, cache, scales)
        return (cache, scales, position + 1), output

    scan = jax.jit(lambda *carry: lax.scan(step, carry, tuple(rows)), donate_argnums=(0, 1))
    before = places((cache, scales))
    text = scan.lower(cache, scales, start).compile().as_text()
    assert not copies(text, f"s8[2,{batch},{capacity},2,{kv_heads},{dim}]"), "the scan copies the cache"
    (cache, scales, _), outputs = scan(cache, scales, start)
    assert places((cache, scales)) == before, "the cache has moved"
    numbers = np.asarray(cache, np.float64) * np.repeat(np.asarray(scales, np.float64), group, -1)
    for i in range(tokens):
        for s, b in np.ndindex(2, batch):
            at = int(start[b]) + i
            new = np.stack([rows[1][i, s, b, 0], rows[2][i, s, b, 0]])
            rounding = np.repeat(np.asarray(scales[s, b, at], np.float64), group, -1) / 2
            assert (np.abs(numbers[s, b, at] - new) <= rounding * 1.001).all(), "codes"
            kept = numbers[s, b, None, : at + 1]
            expected = attention(rows[0][i, s, b, None], kept[:, :, 0], kept[:, :, 1], np.True_)
            close(outputs[i, s, b], expected[0], 5)


def stores(rng: np.random.Generator) -> None:
    for dtype in ("float32", "int8", "bfloat16"):
        cache, update = normal(rng, 2, 7, 3, 5), normal(rng, 2, 2, 3, 5)
        cache, update = (jnp.asarray(a * 9, dtype) for a in (cache, update))
        expected = np.array(cache)
        for b, slots in enumerate(([6, 0], [3, 4])):
            expected[b, slots] = update[b]
        kept = jnp.array(cache)
        run = partial(kvmill_jax.store, circular=True)
        found = jax.jit(run)(cache, update, np.array([6, 3], np.int32))
        assert (np.asarray(found) == expected).all() and (cache == kept).all()
        place = cache.unsafe_buffer_pointer()
        found = jax.jit(run, donate_argnums=0)(cache, update, np.array([6, 3], np.int32))
        assert found.unsafe_buffer_pointer() == place and (np.asarray(found) == expected).all()


def by_name(rng: np.random.Generator) -> None:
    """Call an op without a function of its own: what is stored is read back."""
    key, value = normal(rng, 1, 3, 2, 16), normal(rng, 1, 3, 2, 16)
    like = partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
    cache = jnp.ones((1, 1, 2, 5, 2, 16))
    operands = {"current_key": key, "current_value": value, "start_pos": jnp.int32(1), "cache": cache}
    results = {"key": like((1, 4, 2, 16)), "value": like((1, 4, 2, 16)), "cache": like(cache.shape)}
    run = jax.jit(lambda operands: kvmill_jax.call("KeyValueCache", operands, results, num_kv_heads=2, head_dim=16))
    found = run(operands)
    for name, new in (("key", key), ("value", value)):
        assert (found[name][:, 1:] == new).all() and (found[name][:, :1] == 1).all()
    assert (found["cache"][:, 0, 0, 1:4] == key).all() and (cache == 1).all()


def guided(rng: np.random.Generator) -> None:
    """The program of the guide, as it stands."""
    page = Path(__file__).parents[2] / "doc" / "guide" / "jax.md"
    names: dict[str, Any] = {}
    exec(page.read_text().split("```python\n")[1].split("```")[0], names)
    assert names["outputs"].shape == names["query"].shape and names["position"] == 10
    close(names["outputs"], np.ones(names["query"].shape), 1)


# ---- Transformations ----


def mapped(rng: np.random.Generator) -> None:
    """jax.vmap over arrays of the batch is one call; over an array that all sequences share, or over
    nothing, it is a loop."""
    query, key, value = normal(rng, 3, 2, 4, 4, 32), normal(rng, 3, 2, 9, 2, 32), normal(rng, 2, 9, 2, 32)
    sinks = normal(rng, 3, 4)
    ours, theirs = kvmill_jax.dot_product_attention, jax.nn.dot_product_attention
    some = jax.jit(jax.vmap(ours, (None, 0, None)))(query[0], key, value)
    nested = jax.jit(jax.vmap(jax.vmap(partial(ours, is_causal=True)), (0, 0, None)))(query, key, value)
    by_sinks = jax.jit(jax.vmap(lambda s: ours(query[0], key[0], value, sinks=s)))(sinks)
    plain, causal = jax.jit(theirs), jax.jit(partial(theirs, is_causal=True))
    for i in range(3):
        close(some[i], plain(query[0], key[i], value), 5)
        close(nested[i], causal(query[i], key[i], value), 5)
        close(by_sinks[i], ours(query[0], key[0], value, sinks=sinks[i]), 5)
    over_nothing = jax.vmap(jax.vmap(ours, (0, None, None)), (0, None, None))
    assert jax.jit(over_nothing)(query[None, :0], key[0], value).shape == (1, 0, *query.shape[1:])


def not_differentiated(rng: np.random.Generator) -> None:
    query, key = normal(rng, 1, 2, 2, 16), normal(rng, 1, 5, 2, 16)
    caches = jnp.zeros((1, 8, 2, 16)), jnp.zeros((1, 8, 2, 16))
    functions = {
        "dot_product_attention": lambda q: kvmill_jax.dot_product_attention(q, key, key),
        "decode_step": lambda q: kvmill_jax.decode_step(q, q, q, *caches, 0)[0],
        "store": lambda q: kvmill_jax.store(caches[0], q, 0),
        "attend": lambda q: kvmill_jax.attend(q, key, key, 5),
        "cache_step": lambda q: kvmill_jax.cache_step(q, q, q, jnp.zeros((1, 8, 2, 2, 16)), None, 0)[0],
    }
    for name, function in functions.items():
        words = f"kvmill.jax.{name} cannot be differentiated"
        total = jax.jit(lambda q, f=function: f(q).sum())
        refused(words, lambda t=total: jax.grad(t)(query), NotImplementedError)
        refused(words, lambda t=total: jax.jvp(t, (query,), (query,)), NotImplementedError)
    stopped = jax.grad(lambda q: (q * functions["store"](lax.stop_gradient(q)).sum()).sum())(query)
    close(stopped, np.full(query.shape, query.sum()), 100)


def at_a_time(rng: np.random.Generator) -> None:
    """Several threads, of which the first makes the plan, each with its own workspace."""
    query, key = normal(rng, 6, 1, 3, 8, 64), normal(rng, 1, 50, 2, 64)
    run = jax.jit(lambda q: kvmill_jax.dot_product_attention(q, key, key))
    with ThreadPoolExecutor(8) as executor:
        results = list(executor.map(lambda turn: np.asarray(run(query[turn % 6])), range(200)))
    for turn, result in enumerate(results):
        assert (result == results[turn % 6]).all()
    for turn in range(6):
        close(results[turn], jax.nn.dot_product_attention(query[turn], key, key), 5)


def explained(rng: np.random.Generator, packs: tuple[kvmill.Pack, ...]) -> None:
    step = jax.jit(jax.vmap(kvmill_jax.decode_step, (0, 0, 0, 0, 0, None)))
    new, cache = normal(rng, 2, 1, 1, 2, 16), jnp.zeros((2, 1, 8, 2, 16))
    text = kvmill_jax.explain(step, new, new, new, cache, cache, 3)
    assert text.startswith("TensorScatterAttention-25, 2 heads on 2") and "\n" not in text, text
    assert "past_cache [2, 8, 32]" in text and f"(pack {packs[0].name})" in text, text


# ---- Refusals ----


def refusals(rng: np.random.Generator) -> None:
    query, key = normal(rng, 2, 3, 4, 16), normal(rng, 2, 5, 2, 16)
    attend = kvmill_jax.dot_product_attention
    cache = jnp.zeros((2, 8, 2, 16))
    codes, scales = cache.astype("int8"), jnp.ones((2, 8, 2, 3))
    rows = [
        ("implementation is 'cudnn'; accepted: None", lambda: attend(query, key, key, implementation="cudnn")),
        ("query.dtype is int32; accepted: float32", lambda: attend(query.astype(int), key, key)),
        ("key.dtype is float16; accepted: float32", lambda: attend(query, key.astype("float16"), key)),
        ("value.shape is (2, 4, 2, 16); accepted: (2, 5, 2, E)", lambda: attend(query, key, key[:, 1:])),
        ("a multiple of 2 heads", lambda: attend(query[:, :, :3], key, key)),
        ("local_window_size is -1", lambda: attend(query, key, key, local_window_size=-1)),
        ("local_window_size is 2.5", lambda: attend(query, key, key, local_window_size=2.5)),
        ("local_window_size is (1, 2, 3)", lambda: attend(query, key, key, local_window_size=(1, 2, 3))),
        ("mask.dtype is float32; accepted: bool", lambda: attend(query, key, key, mask=jnp.ones((1, 1, 3, 5)))),
        ("bias.shape is (1, 3, 3, 5)", lambda: attend(query, key, key, bias=jnp.ones((1, 3, 3, 5)))),
        ("scale is 0; accepted", lambda: attend(query, key, key, scale=0)),
        ("scale is -0.5; accepted", lambda: attend(query, key, key, scale=-0.5)),
        ("scale is nan; accepted", lambda: attend(query, key, key, scale=np.nan)),
        ("accepted: None, a finite number", lambda: jax.jit(lambda s: attend(query, key, key, scale=s))(0.5)),
        ("key_value_seq_lengths.shape is (3,)", lambda: attend(query, key, key, key_value_seq_lengths=np.ones(3, int))),
        ("write_indices.dtype is float32", lambda: kvmill_jax.store(cache, key, 0.5)),
        ("update.shape is (2, 3, 4, 16); accepted: (2, rows, 2, 16)", lambda: kvmill_jax.store(cache, query, 0)),
        ("key_scale is None; accepted: scales", lambda: kvmill_jax.attend(query, *[cache.astype("int8")] * 2, 5)),
        ("past_cache.dtype is int4; accepted: types of 8 bits", lambda: kvmill_jax.store(*[cache.astype("int4")] * 2, 0)),
        ("key.shape is (2, 5, 2, 15); accepted: rows of 16", lambda: kvmill_jax.attend(query, key[..., 1:], key, 5)),
        ("key_scale.shape is (2, 8, 2, 0)", lambda: kvmill_jax.attend(query, *[codes] * 2, 5, key_scale=scales[..., :0], value_scale=scales)),
        ("key_scale.shape is (2, 8, 2, 3)", lambda: kvmill_jax.attend(query, *[codes] * 2, 5, key_scale=scales, value_scale=scales)),
        ("scale_cache is given", lambda: kvmill_jax.cache_step(query, *[query] * 2, jnp.zeros((2, 8, 2, 4, 16)), query, 0)),
    ]  # fmt: skip
    for words, run in rows:
        refused(words, run, ValueError)
    refused("pack is 'x'; accepted: a kvmill.Pack", lambda: attend(query, key, key, pack="x"), TypeError)
    refused('math is "slow"; accepted: f32', lambda: attend(query, key, key, math="slow"), kvmill.KvmillError)
    step = jax.jit(kvmill_jax.store)
    refused("write_indices[1] is 7; accepted: 0 to 6", lambda: step(cache, key[:, :2], np.array([0, 7])), ERRORS)


ERRORS = (ValueError, jax.errors.JaxRuntimeError)


def refused_calls(rng: np.random.Generator) -> None:
    """Frames that the Python code would not create: the handler's messages about their
    attributes."""
    cache, row = jnp.zeros((1, 8, 4)), jnp.ones((1, 1, 4))
    said = {
        "op": "TensorScatter",
        "pack": "",
        "operands": "past_cache update",
        "results": "present_cache",
        "axis": np.int64(1),
    }
    rows = [
        ('op is "Scatter"; accepted: TensorScatter, KeyValueCache', {"op": "Scatter"}),
        ('op is ""', {"op": ""}),
        ('pack "none" is not loaded', {"pack": "none"}),
        ('TensorScatter has no tensor "new"; accepted: past_cache, update', {"operands": "past_cache new"}),
        ("1 operands and 1 results are named; accepted: 2 and 1", {"operands": "update"}),
        ("present_cache of TensorScatter is in the wrong list", {"operands": "past_cache present_cache", "results": "update"}),
        ('operands has "update[1,x]"', {"operands": "past_cache update[1,x]"}),
        ("update has 4 elements", {"operands": "past_cache update[1,1,5]"}),
        ('TensorScatter has no attribute "opset"; accepted: axis, mode', {"opset": np.int64(24)}),
        ("axis is 1.5; accepted: an integer", {"axis": np.float64(1.5)}),
        ('mode is "ring"; accepted: linear, circular', {"mode": "ring"}),
        ("axis is of kind 1; accepted: numbers and texts", {"axis": np.array([1])}),
        ("axis is 7", {"axis": np.int64(7)}),
        ("results is of kind 3; accepted: a text", {"results": np.int64(1)}),
    ]  # fmt: skip
    for words, changed in rows:
        run = jax.ffi.ffi_call("kvmill", jax.ShapeDtypeStruct(cache.shape, cache.dtype))
        refused(words, lambda: jax.block_until_ready(run(cache, row, **said | changed)), ERRORS)
    found = run(cache, row, **said)
    assert (found[0, 0] == 1).all() and (found[0, 1:] == 0).all()


def run_all(tap: Tap, packs: tuple[kvmill.Pack, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    kvmill_jax.use(packs[0])
    for number in range(CASES):
        tap.run(f"kvmill.jax: attention as jax.nn has it, case {number}", partial(like_jax, rng))
    for word in FORMATS:
        tap.run(f"kvmill.jax: a cache of {word}", partial(of_format, rng, word))
    for name, test in (
        ("without a batch, by portable kernels", three_dims),
        (f"{LAYERS} layers decode {TOKENS} tokens in a scan, in place", decodes),
        ("an int8 cache, mapped, in a scan, in place", decodes_codes),
        ("stores around the end, in place of what is donated", stores),
        ("an op by its name", by_name),
        ("the guide's loop", guided),
        ("vmap", mapped),
        ("differentiation is refused", not_differentiated),
        ("threads, of which the first makes the plan", at_a_time),
        ("which kernels run", partial(explained, packs=packs)),
        ("arguments that are refused", refusals),
        ("calls that are refused", refused_calls),
    ):
        tap.run(f"kvmill.jax: {name}", partial(test, rng))


def run(tap: Tap, packs: tuple[kvmill.Pack, ...], seed: int) -> None:
    """Run with JAX's default types, in all threads: other types need 64 bits."""
    jax.config.update("jax_enable_x64", False)
    run_all(tap, packs, seed)
    jax.config.update("jax_enable_x64", True)
