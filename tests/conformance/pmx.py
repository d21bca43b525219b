"""Conformance of kvmill to PMX cache attention: random configurations, compared with a NumPy version of the PyTorch
reference (pmx_reference.py).

Caches, scales and what KeyValueCache reads back must agree in every bit.  The reference rounds attention after every
step, and kvmill does not; attention must agree within these roundings.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from typing import NamedTuple

import kvmill
import numpy as np
import pmx_reference as reference
from pmx_reference import Attributes, Tensors
from tap import Tap

CASES = 128
# Values in memory that the op must not read.
UNITS = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
POISON = {
    "float32": np.nan,
    "float16": np.nan,
    "bfloat16": 0x7FC0,
    "float8e4m3fn": np.nan,
    "float8e5m2": np.nan,
}
POISON_OF_BLOCKS = 0x7E  # a byte that makes scales NaN

# ---- Random configurations ----

# Heads, kv heads, head size: those that packs have kernels for, and odd ones.
HEADS = [(32, 8, 128), (14, 2, 64), (9, 3, 64), (16, 2, 64), (6, 2, 80), (5, 1, 100), (3, 3, 24)]
TYPES = ("float32", "float16", "bfloat16")
FLOAT8 = ("float8e4m3fn", "float8e5m2")


def random_group(rng: np.random.Generator, head_dim: int, bits: int) -> int:
    groups = [g for g in range(1, head_dim + 1) if head_dim % g == 0 and (bits == 8 or g % 2 == 0)]
    return int(rng.choice([8] if head_dim % 8 == 0 and rng.random() < 0.5 else groups))


def random_attributes(rng: np.random.Generator) -> Attributes:
    heads, kv_heads, dim = HEADS[rng.integers(len(HEADS))]
    bits = int(rng.choice([0, 0, 8, 8, 4]))
    T1 = str(rng.choice(TYPES))
    dynamic = bool(rng.random() < 0.5)
    layers = int(rng.integers(1, 4))
    plain = T1 if rng.random() < 0.4 else str(rng.choice(TYPES + FLOAT8))
    blocks = dim % reference.BLOCK == 0 and bits == 0 and rng.random() < 0.4
    return Attributes(
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=dim,
        T1=T1,
        T2="uint8" if blocks else {0: plain, 8: "int8", 4: "int4"}[bits],
        T3=str(rng.choice(TYPES)),
        is_causal=bool(rng.random() < 0.8),
        is_alibi=bool(rng.random() < 0.2),
        num_layer=layers,
        layer_idx=int(rng.integers(layers)),
        quant_bit=bits,
        quant_group=random_group(rng, dim, bits) if bits else 8,
        cache_layout=int(rng.integers(4 if dynamic else 2)),
        cache_mode=int(dynamic and rng.random() < 0.5),
        page_size=int(rng.choice([1, 4, 7, 16, 128])),
        num_repeat=int(rng.integers(1, 4)),
        dynamic_batching=dynamic,
        cache_format="q5_1" if blocks else None,
    )


# ---- Random tensors ----


def activations(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    """Draw values of several magnitudes, including zeros."""
    magnitudes = rng.choice([0.0, 1e-4, 0.3, 1.0, 1.0, 2.0], (*shape[:-1], 1))
    return reference.encode(dtype, rng.standard_normal(shape) * magnitudes)


class Lengths(NamedTuple):
    start: np.ndarray
    new: np.ndarray

    @property
    def all(self) -> np.ndarray:
        return self.start + self.new


def random_lengths(rng: np.random.Generator, attributes: Attributes) -> Lengths:
    batch = int(rng.integers(1, 4))
    start = rng.choice([0, 1, 9, 70], batch) + rng.integers(0, 5, batch)
    new = rng.choice([1, 1, 2, 5, 19], batch)
    if attributes.dynamic_batching:
        return Lengths(start, np.where(rng.random(batch) < 0.1, 0, new))
    return Lengths(np.repeat(start[:1], batch), np.repeat(new[:1], batch))


def sums(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def random_places(
    rng: np.random.Generator, attributes: Attributes, lengths: Lengths
) -> tuple[np.ndarray, int]:
    """Draw cachestarts and the number of cache rows: sequences, or their pages, in any order and
    with gaps."""
    paged = attributes.cache_mode == 1
    pages = -(-lengths.all // attributes.page_size)
    sizes = np.full(pages.sum(), attributes.page_size) if paged else lengths.all
    order = rng.permutation(len(sizes))
    gaps = rng.integers(0, 3, len(sizes))
    begins = np.empty(len(sizes), np.int64)
    ends = np.cumsum(sizes[order] + gaps)
    begins[order] = ends - sizes[order]
    rows = int(ends[-1]) + 2 if len(ends) else 1
    if not paged:
        return begins, rows
    table = np.full((len(pages), max(pages.max(), 1) + 1), -1, np.int64)
    for b, row in enumerate(np.split(begins, np.cumsum(pages)[:-1])):
        table[b, : len(row)] = row
    return table, rows


def poisoned_cache(
    rng: np.random.Generator, attributes: Attributes, batch: int, slots: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return a cache that has only values that must never be read."""
    dims, last = reference.cache_dims(attributes, batch, slots), reference.last_dim(attributes)
    if attributes.cache_format:
        return np.full((*dims, last), POISON_OF_BLOCKS, np.uint8), None
    if attributes.quant_bit == 0:
        storage = reference.STORAGE[attributes.T2]
        return np.full((*dims, last), POISON[attributes.T2], storage), None
    codes = np.int8 if attributes.quant_bit == 8 else np.uint8
    cache = rng.integers(-128, 128, (*dims, last)).astype(np.int8).view(codes)
    groups = attributes.head_dim // attributes.quant_group
    scale = np.full((*dims, groups), POISON[attributes.T3], reference.STORAGE[attributes.T3])
    return cache, scale


def random_mask(
    rng: np.random.Generator, attributes: Attributes, lengths: Lengths
) -> np.ndarray | None:
    """Draw a mask of any rank, wider than the positions.  The first position of a sequence is never
    masked."""
    if rng.random() < 0.6:
        return None
    dynamic, batch = attributes.dynamic_batching, len(lengths.new)
    rows = int(lengths.new.sum()) if dynamic else int(lengths.new[0])
    columns = int(lengths.all.sum()) if dynamic else int(lengths.all[0])
    lead = [(), (attributes.num_heads,), (1, attributes.num_heads), (batch, attributes.num_heads)]
    shape = (*lead[rng.integers(2 if dynamic else 4)], rows, columns)
    mask = rng.standard_normal(shape)
    mask[rng.random(shape) < 0.1] = -np.inf
    mask[..., sums(lengths.all)[:-1] if dynamic else 0] = 0
    padding = np.full((*shape[:-1], int(rng.integers(0, 9))), np.nan)
    return reference.encode(attributes.T1, np.concatenate([mask, padding], -1))


def fill(
    rng: np.random.Generator, attributes: Attributes, tensors: Tensors, lengths: Lengths
) -> None:
    """Fill the cache before start_pos."""
    for b, start in enumerate(lengths.start):
        cache, scale = (
            None if array is None else reference.layer_view(attributes, array, b)
            for array in (tensors.cache, tensors.scale)
        )
        slots = reference.slots_of(attributes, tensors, b, int(start))
        for kv in (0, 1):
            rows = activations(
                rng, attributes.T1, int(start), attributes.num_kv_heads, attributes.head_dim
            )
            reference.store(
                attributes, cache, scale, reference.decode(attributes.T1, rows), kv, slots
            )


def random_tensors(rng: np.random.Generator, attributes: Attributes) -> Tensors:
    lengths = random_lengths(rng, attributes)
    dynamic, batch = attributes.dynamic_batching, len(lengths.new)
    lead = (int(lengths.new.sum()),) if dynamic else (batch, int(lengths.new[0]))
    places, slots = (
        random_places(rng, attributes, lengths) if dynamic else (None, int(lengths.all[0]) + 3)
    )
    cache, scale = poisoned_cache(rng, attributes, batch + 1, slots)

    def rows(heads: int) -> np.ndarray:
        return activations(rng, attributes.T1, *lead, heads, attributes.head_dim)

    tensors = Tensors(
        start_pos=(lengths.start if dynamic else lengths.start[:1]).astype(np.int64),
        cache=cache,
        scale=scale,
        current_key=rows(attributes.num_kv_heads),
        current_value=rows(attributes.num_kv_heads),
        query=rows(attributes.num_heads),
        attn_mask=random_mask(rng, attributes, lengths),
        seqstarts=sums(lengths.new) if dynamic else None,
        kvstarts=sums(lengths.all) if dynamic else None,
        cachestarts=places,
        decoding_batches=int(rng.integers(0, batch + 1)) if dynamic else 0,
    )
    fill(rng, attributes, tensors, lengths)
    return tensors


# ---- Running kvmill ----


class Variant(NamedTuple):
    name: str
    options: dict
    threads: int


def all_variants(packs: Sequence[kvmill.Pack]) -> Iterator[Variant]:
    yield Variant("packs", {"packs": packs}, 1)
    yield Variant("packs, AVX2 at most", {"packs": packs, "isa": "avx2"}, 3)
    yield Variant("portable", {"portable": True}, 2)


def attributes_of(attributes: Attributes, op: type) -> dict:
    given = asdict(attributes)
    if op is kvmill.KeyValueCache:
        del given["num_heads"]
    return given


def numbers_of(attributes: Attributes, tensors: Tensors, names: Sequence[str]) -> dict:
    """Return the int64 inputs of an op."""
    if not attributes.dynamic_batching:
        return {"start_pos": tensors.start_pos} if "start_pos" in names else {}
    most = {
        "decoding_batches": tensors.decoding_batches,
        "max_seqlen": np.diff(tensors.seqstarts).max(),
        "max_kvlen": [np.diff(tensors.kvstarts).max() + 2],
    }
    return {name: most[name] if name in most else getattr(tensors, name) for name in names}


LENGTHS = ("seqstarts", "kvstarts", "max_seqlen", "max_kvlen")
PLACES = ("start_pos", "cachestarts")


def run(op: type, attributes: Attributes, variant: Variant, tensors: dict) -> object:
    plan = op(threads=variant.threads, **attributes_of(attributes, op), **variant.options)
    if variant.threads == 1:
        return plan.run(**tensors)
    with ThreadPoolExecutor(variant.threads) as executor:
        return plan.run(executor=executor, **tensors)


def same_bits(got: np.ndarray | None, want: np.ndarray | None, what: str) -> None:
    if want is None:
        return
    assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
    different = got.view(np.uint8) != want.view(np.uint8)
    assert not different.any(), (
        f"{what}: {different.sum()} bytes differ, the first at {np.argwhere(different)[0]}"
    )


# ---- What is held to what ----


class Answer(NamedTuple):
    """Inputs, and the reference's results; the tensors hold the cache as it is afterwards."""

    attributes: Attributes
    tensors: Tensors
    after: Tensors
    outputs: list[np.ndarray]


def answer(attributes: Attributes, tensors: Tensors) -> Answer:
    scale = None if tensors.scale is None else tensors.scale.copy()
    after = replace(tensors, cache=tensors.cache.copy(), scale=scale, keys=[], values=[])
    reference.key_value_cache(attributes, after)
    return Answer(
        attributes, tensors, after, reference.multi_head_attention(attributes, after)
    )


def joined(attributes: Attributes, sequences: Sequence[np.ndarray]) -> np.ndarray:
    """Join the activations of sequences as the ops expect them."""
    join = np.concatenate if attributes.dynamic_batching else np.stack
    return join(sequences)


def tolerance(case: Answer, b: int) -> float:
    """Return the error that the reference's roundings may cause in outputs of sequence b.

    A score of size s has an error of about s units in the last place, so this many units of weight
    may go to wrong values."""
    attributes, after = case.attributes, case.after
    types = {attributes.T1} | ({attributes.T3} if attributes.quant_bit else set())
    unit = max(UNITS[name] for name in types)
    query = reference.tokens_of(attributes, after, after.query, b)
    key = np.repeat(after.keys[b], attributes.ratio, axis=1)
    products = np.einsum("shd,khd->hsk", query, key)
    score = np.abs(products).max(initial=0) / np.sqrt(attributes.head_dim) + 4
    if attributes.is_alibi:
        score += len(key)
    return unit * (1 + score) * np.abs(after.values[b]).max(initial=0) + 1e-6


def check_outputs(case: Answer, output: np.ndarray) -> None:
    attributes, at = case.attributes, 0
    for b, want in enumerate(case.outputs):
        rows = output[at : at + len(want)] if attributes.dynamic_batching else output[b]
        at += len(want)
        error = np.abs(reference.decode(attributes.T1, rows) - want).max(initial=0)
        allowed = tolerance(case, b)
        assert error <= allowed, f"sequence {b} is off by {error}; allowed: {allowed}"


def cache_copies(tensors: Tensors) -> dict:
    return {
        "cache": tensors.cache.copy(),
        "scale": None if tensors.scale is None else tensors.scale.copy(),
    }


def check_caches(case: Answer, caches: dict) -> None:
    same_bits(caches["cache"], case.after.cache, "cache")
    same_bits(caches["scale"], case.after.scale, "scale")


def inputs(tensors: Tensors, *names: str) -> dict:
    return {name: getattr(tensors, name) for name in names}


def check_key_value_cache(case: Answer, variant: Variant) -> None:
    attributes, tensors = case.attributes, case.tensors
    caches = cache_copies(tensors)
    got = run(
        kvmill.KeyValueCache,
        attributes,
        variant,
        inputs(tensors, "current_key", "current_value")
        | numbers_of(attributes, tensors, LENGTHS + PLACES)
        | caches,
    )
    check_caches(case, caches)
    for name, rows, want in zip(
        ("key", "value"), got, (case.after.keys, case.after.values), strict=True
    ):
        repeated = np.repeat(joined(attributes, want), attributes.num_repeat, axis=-2)
        same_bits(rows, reference.encode(attributes.T1, repeated), name)


def check_fused(case: Answer, variant: Variant) -> None:
    attributes, tensors = case.attributes, case.tensors
    caches = cache_copies(tensors)
    output = run(
        kvmill.MultiHeadCacheAttention,
        attributes,
        variant,
        inputs(tensors, "query", "current_key", "current_value", "attn_mask")
        | numbers_of(attributes, tensors, (*LENGTHS, *PLACES, "decoding_batches"))
        | caches,
    )
    check_caches(case, caches)
    check_outputs(case, output)


def check_attention(case: Answer, variant: Variant) -> None:
    """Run MultiHeadAttention on what KeyValueCache reads back."""
    attributes, tensors = case.attributes, case.tensors
    loaded = [
        reference.encode(attributes.T1, joined(attributes, rows))
        for rows in (case.after.keys, case.after.values)
    ]
    output = run(
        kvmill.MultiHeadAttention,
        attributes,
        variant,
        inputs(tensors, "query", "attn_mask")
        | numbers_of(attributes, tensors, (*LENGTHS, "decoding_batches"))
        | {"key": loaded[0], "value": loaded[1]},
    )
    check_outputs(case, output)


def check_all(check: object, cases: Sequence[Answer], variant: Variant) -> None:
    for number, case in enumerate(cases):
        try:
            check(case, variant)
        except Exception as error:
            raise AssertionError(f"case {number}, {case.attributes}") from error


def check_partials() -> None:
    """Two halves of the keys, merged, give the result over all keys."""
    rng = np.random.default_rng(7)
    plan = kvmill.MultiHeadAttention(num_heads=4, head_dim=16, T1="float32", partial=True)
    whole = kvmill.MultiHeadAttention(num_heads=4, head_dim=16, T1="float32")
    query, key, value = (
        rng.standard_normal((2, tokens, 4, 16)).astype(np.float32) for tokens in (1, 40, 40)
    )
    halves = [
        plan.run(query=query, key=key[:, part], value=value[:, part])
        for part in (slice(0, 13), slice(13, 40))
    ]
    output, _ = kvmill.merge_partials(*zip(*halves, strict=True))
    want = whole.run(query=query, key=key, value=value)
    assert np.abs(output - want).max() < 1e-6, np.abs(output - want).max()


def check_ring() -> None:
    """A ring attends like a linear cache with a window of the ring's size, and reads back its
    rows."""
    rng = np.random.default_rng(11)
    heads = {"num_kv_heads": 2, "head_dim": 16, "T1": "float32", "quant_bit": 8}
    window = {"num_heads": 4, "left_window_size": 6} | heads
    ring, linear = (np.zeros((1, 1, 2, slots, 2, 16), np.int8) for slots in (8, 40))
    scales = [np.ones((1, 1, 2, slots, 2, 2), np.float32) for slots in (8, 40)]
    plan = kvmill.MultiHeadCacheAttention(**window, mode="circular")
    whole = kvmill.MultiHeadCacheAttention(**window)
    for start in range(0, 35, 5):
        query = rng.standard_normal((1, 5, 4, 16)).astype(np.float32)
        key, value = rng.standard_normal((2, 1, 5, 2, 16)).astype(np.float32)
        given = {"query": query, "current_key": key, "current_value": value, "start_pos": start}
        output = plan.run(**given, cache=ring, scale=scales[0])
        want = whole.run(**given, cache=linear, scale=scales[1])
        assert np.abs(output - want).max() < 1e-6, np.abs(output - want).max()
    none = {name: key[:, :0] for name in ("current_key", "current_value")} | {"start_pos": 35}
    store = kvmill.KeyValueCache(**heads, mode="circular")
    got = store.run(**none, cache=ring, scale=scales[0])
    want = kvmill.KeyValueCache(**heads).run(**none, cache=linear, scale=scales[1])
    for rows, all_rows in zip(got, want, strict=True):
        same_bits(rows, np.ascontiguousarray(all_rows[:, 27:]), "the last 8 rows")


def check_float8(T2: str, options: dict) -> None:
    """Every float16, including those that are not finite, is rounded as in ml_dtypes, or
    saturates."""
    rows = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(1, 512, 1, 128)
    cache = np.zeros((1, 1, 2, 512, 1, 128), reference.STORAGE[T2])
    plan = kvmill.KeyValueCache(num_kv_heads=1, head_dim=128, T1="float16", T2=T2, **options)
    got = plan.run(current_key=rows, current_value=-rows, start_pos=0, cache=cache)
    for kv, given in enumerate((rows, -rows)):
        want = reference.encode(T2, given)
        stored, nan = cache[0, 0, kv].reshape(want.shape), np.isnan(given)
        assert np.array_equal(np.isnan(stored), nan), "NaN where there was none, or none left"
        same_bits(stored[~nan], want[~nan], f"{T2}, stored")
        same_bits(got[kv][~nan], want[~nan].astype(np.float16), f"{T2}, read back")


def run_case(rng: np.random.Generator) -> Answer:
    attributes = random_attributes(rng)
    return answer(attributes, random_tensors(rng, attributes))


def run_all(tap: Tap, packs: Sequence[kvmill.Pack], seed: int) -> None:
    """All tests of this file."""
    cases = [run_case(np.random.default_rng([seed, number])) for number in range(CASES)]
    checks = {
        "KeyValueCache": check_key_value_cache,
        "MultiHeadAttention": check_attention,
        "MultiHeadCacheAttention": check_fused,
    }
    for variant in all_variants(packs):
        for op, check in checks.items():
            tap.run(
                f"{op}: {len(cases)} configurations are as PMX's reference ({variant.name})",
                partial(check_all, check, cases, variant),
            )
        for T2 in FLOAT8:
            tap.run(
                f"every float16 as {T2} ({variant.name})",
                partial(check_float8, T2, variant.options),
            )
    tap.run("partial results of two halves, merged", check_partials)
    tap.run("rings, against linear caches", check_ring)
