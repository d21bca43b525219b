"""PMX cache attention in NumPy, written only from its description, for one sequence and one head after the other.  It
computes what the PyTorch reference does, with its roundings.

Values are float32 arrays, and are rounded to a type after every step of that type's arithmetic.  This is exact for
float16, because float32 has more than twice as many digits.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

# ---- Types ----

STORAGE = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": np.uint16,
    "float8e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8e5m2": ml_dtypes.float8_e5m2,
}
# Types that saturate.
LARGEST = {"float8e4m3fn": 448, "float8e5m2": 57344}


def round_to(dtype: str, values: np.ndarray) -> np.ndarray:
    return decode(dtype, encode(dtype, values))


def encode(dtype: str, values: np.ndarray) -> np.ndarray:
    """Return float32 values as they are in memory, rounded to nearest even."""
    values = np.asarray(values, np.float32)
    if dtype in LARGEST:
        values = np.clip(values, -LARGEST[dtype], LARGEST[dtype])
    if dtype != "bfloat16":
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(STORAGE[dtype])
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


def decode(dtype: str, stored: np.ndarray) -> np.ndarray:
    if dtype != "bfloat16":
        return stored.astype(np.float32)
    return (np.ascontiguousarray(stored).astype(np.uint32) << 16).view(np.float32)


# ---- Quantisation ----

LARGEST_CODE = {8: 127, 4: 7}
LEAST_SCALE = 1e-5


def quantise(T1: str, rows: np.ndarray, bits: int, group: int) -> tuple[np.ndarray, np.ndarray]:
    """Return codes [..., dim] and scales [..., dim / group], which are not yet rounded to T3."""
    largest = LARGEST_CODE[bits]
    groups = rows.reshape(*rows.shape[:-1], rows.shape[-1] // group, group)
    scales = round_to(T1, np.abs(groups).max(-1) / np.float32(largest))
    scales = np.maximum(scales, round_to(T1, np.float32(LEAST_SCALE)))
    quotients = round_to(T1, groups / scales[..., None])
    codes = np.clip(np.rint(quotients), -largest, largest).astype(np.int8)
    return codes.reshape(rows.shape), scales


def dequantise(T1: str, T3: str, codes: np.ndarray, scales: np.ndarray) -> np.ndarray:
    group = codes.shape[-1] // scales.shape[-1]
    groups = codes.astype(np.float32).reshape(*scales.shape, group)
    return round_to(T1, round_to(T3, groups * scales[..., None])).reshape(codes.shape)


def pack_int4(codes: np.ndarray) -> np.ndarray:
    nibbles = codes.astype(np.uint8) & 15
    return nibbles[..., 0::2] | nibbles[..., 1::2] << 4


def unpack_int4(packed: np.ndarray) -> np.ndarray:
    nibbles = np.stack([packed & 15, packed >> 4], -1).astype(np.int8)
    return ((nibbles ^ 8) - 8).reshape(*packed.shape[:-1], 2 * packed.shape[-1])


# ---- llama.cpp's blocks ----

BLOCK = 32
BLOCK_BYTES = {"q5_1": 24}


def pack_q5_1(rows: np.ndarray) -> np.ndarray:
    """Pack blocks of 32 elements: scale and minimum in float16, 4 bytes of fifth bits, then bytes
    with element i in the low half and element i + 16 in the high half."""
    count = rows.shape[-1] // BLOCK
    blocks = rows.reshape(*rows.shape[:-1], count, BLOCK)
    least = np.take_along_axis(blocks, blocks.argmin(-1, keepdims=True), -1)
    extent = blocks.max(-1, keepdims=True) - least + np.float32(0)  # never -0
    scale = extent / np.float32(31)
    with np.errstate(divide="ignore"):
        inverse = np.where(scale == 0, np.float32(0), np.float32(1) / scale)
    codes = ((blocks - least) * inverse + np.float32(0.5)).astype(np.uint8)
    parts = (
        np.concatenate([scale, least], -1).astype(np.float16).view(np.uint8),
        np.packbits(codes >> 4, -1, bitorder="little"),
        codes[..., :16] & 15 | codes[..., 16:] << 4,
    )
    return np.concatenate(parts, -1).reshape(*rows.shape[:-1], count * BLOCK_BYTES["q5_1"])


def unpack_q5_1(packed: np.ndarray) -> np.ndarray:
    count = packed.shape[-1] // BLOCK_BYTES["q5_1"]
    blocks = packed.reshape(*packed.shape[:-1], count, BLOCK_BYTES["q5_1"])
    scale, least = np.moveaxis(np.ascontiguousarray(blocks[..., :4]).view(np.float16), -1, 0)
    fifth = np.unpackbits(blocks[..., 4:8], -1, bitorder="little")
    codes = np.concatenate([blocks[..., 8:] & 15, blocks[..., 8:] >> 4], -1) + 16 * fifth
    rows = codes * scale[..., None].astype(np.float32) + least[..., None].astype(np.float32)
    return rows.reshape(*packed.shape[:-1], count * BLOCK)


# ---- The ops' attributes ----


@dataclass(frozen=True)
class Attributes:
    """Attributes, as in PMX; num_kv_heads is resolved."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    T1: str = "float32"
    T2: str = "float32"
    T3: str = "float32"
    is_causal: bool = True
    is_alibi: bool = False
    num_layer: int = 1
    layer_idx: int = 0
    quant_bit: int = 0
    quant_group: int = 8
    cache_layout: int = 0
    cache_mode: int = 0
    page_size: int = 128
    num_repeat: int = 1
    dynamic_batching: bool = False
    cache_format: str | None = None

    @property
    def ratio(self) -> int:
        return self.num_heads // self.num_kv_heads


# ---- The cache ----

# The axes of layouts in the order [batch, layer, kv, slot, head], or without batch.
STATIC_ORDER = {0: (0, 1, 2, 3, 4), 1: (1, 0, 2, 4, 3)}
DYNAMIC_ORDER = {0: (2, 0, 1, 3), 1: (0, 2, 1, 3), 2: (0, 1, 2, 3), 3: (0, 1, 3, 2)}


def cache_dims(attributes: Attributes, batch: int, slots: int) -> tuple[int, ...]:
    """Return the cache's dims, except the last, in the order of its layout."""
    heads = attributes.num_kv_heads
    if attributes.dynamic_batching:
        dims: tuple[int, ...] = (attributes.num_layer, 2, slots, heads)
        order = DYNAMIC_ORDER[attributes.cache_layout]
    else:
        dims = (batch, attributes.num_layer, 2, slots, heads)
        order = STATIC_ORDER[attributes.cache_layout]
    return tuple(dims[axis] for axis in order)


def last_dim(attributes: Attributes) -> int:
    """Return the number of elements in a row of the cache, as NumPy counts them."""
    if attributes.cache_format:
        return attributes.head_dim // BLOCK * BLOCK_BYTES[attributes.cache_format]
    return attributes.head_dim * (attributes.quant_bit or 8) // 8


def layer_view(attributes: Attributes, cache: np.ndarray, b: int) -> np.ndarray:
    """Return a view [kv, slot, head, last dim] of sequence b in the layer."""
    if attributes.dynamic_batching:
        order = DYNAMIC_ORDER[attributes.cache_layout]
        return cache.transpose(*np.argsort(order), 4)[attributes.layer_idx]
    order = STATIC_ORDER[attributes.cache_layout]
    return cache.transpose(*np.argsort(order), 5)[b, attributes.layer_idx]


def store(
    attributes: Attributes,
    cache: np.ndarray,
    scale: np.ndarray | None,
    current: np.ndarray,
    kv: int,
    slots: np.ndarray,
) -> None:
    """Store rows [token, head, dim] of type T1 in slots of [kv, slot, head, ...]."""
    if attributes.cache_format:
        cache[kv, slots] = pack_q5_1(current)
        return
    if attributes.quant_bit == 0:
        cache[kv, slots] = encode(attributes.T2, current)
        return
    codes, scales = quantise(
        attributes.T1, current, attributes.quant_bit, attributes.quant_group
    )
    cache[kv, slots] = pack_int4(codes) if attributes.quant_bit == 4 else codes
    scale[kv, slots] = encode(attributes.T3, scales)


def load(
    attributes: Attributes, cache: np.ndarray, scale: np.ndarray | None, kv: int, slots: np.ndarray
) -> np.ndarray:
    rows = cache[kv, slots]
    if attributes.cache_format:
        return round_to(attributes.T1, unpack_q5_1(rows))
    if attributes.quant_bit == 0:
        return round_to(attributes.T1, decode(attributes.T2, rows))
    codes = unpack_int4(rows) if attributes.quant_bit == 4 else rows
    scales = decode(attributes.T3, scale[kv, slots])
    return dequantise(attributes.T1, attributes.T3, codes, scales)


# ---- Attention ----


def alibi_slopes(heads: int) -> np.ndarray:
    n = 1 << (heads.bit_length() - 1)
    first = [2.0 ** (-8 * k / n) for k in range(1, n + 1)]
    rest = [2.0 ** (-4 * m / n) for m in range(1, 2 * (heads - n) + 1, 2)]
    return np.array(first + rest, np.float32)


def attend(
    attributes: Attributes,
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    mask: np.ndarray | None,
    causal: bool,
) -> np.ndarray:
    """Attend for one sequence: query [S, H, D]; key, value [KV, KVH, D]; mask broadcasts to [H, S,
    KV]."""
    T1, tokens, positions = attributes.T1, query.shape[0], key.shape[0]
    if tokens == 0:
        return query
    distance = np.arange(positions) - (positions - tokens + np.arange(tokens)[:, None])
    bias = np.zeros((attributes.num_heads, tokens, positions), np.float32)
    if causal:
        bias[:, distance > 0] = -np.inf
    if attributes.is_alibi:
        slopes = round_to(T1, alibi_slopes(attributes.num_heads))
        added = round_to(T1, slopes[:, None, None] * round_to(T1, distance))
        added[:, distance > 0] = -np.inf
        bias = round_to(T1, bias + added)
    if mask is not None:
        bias = round_to(T1, bias + mask)
    key = np.repeat(key, attributes.ratio, axis=1)
    value = np.repeat(value, attributes.ratio, axis=1)
    scores = round_to(T1, np.einsum("shd,khd->hsk", query, key))
    scores = round_to(T1, scores / round_to(T1, np.sqrt(np.float32(attributes.head_dim))))
    scores = round_to(T1, scores + bias)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = round_to(T1, weights / weights.sum(-1, keepdims=True))
    return round_to(T1, np.einsum("hsk,khd->shd", weights, value))


# ---- A call ----


@dataclass
class Tensors:
    """The stored tensors of one call.  In a static batch, start_pos has one element, and sequences
    are along axis 0; with dynamic batching, sequences follow each other."""

    start_pos: np.ndarray
    cache: np.ndarray
    scale: np.ndarray | None
    current_key: np.ndarray
    current_value: np.ndarray
    query: np.ndarray | None = None
    attn_mask: np.ndarray | None = None
    seqstarts: np.ndarray | None = None
    kvstarts: np.ndarray | None = None
    cachestarts: np.ndarray | None = None
    decoding_batches: int = 0
    keys: list[np.ndarray] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)


def sequences(attributes: Attributes, tensors: Tensors) -> int:
    if attributes.dynamic_batching:
        return len(tensors.seqstarts) - 1
    return tensors.current_key.shape[0]


def tokens_of(attributes: Attributes, tensors: Tensors, array: np.ndarray, b: int) -> np.ndarray:
    """Return the decoded activations of sequence b, [S, heads, dim]."""
    if attributes.dynamic_batching:
        rows = array[tensors.seqstarts[b] : tensors.seqstarts[b + 1]]
    else:
        rows = array[b]
    return decode(attributes.T1, rows)


def slots_of(attributes: Attributes, tensors: Tensors, b: int, positions: int) -> np.ndarray:
    position = np.arange(positions)
    if not attributes.dynamic_batching:
        return position
    if attributes.cache_mode == 0:
        return tensors.cachestarts[b] + position
    pages, rest = np.divmod(position, attributes.page_size)
    return tensors.cachestarts[b, pages] + rest


def key_value_cache(attributes: Attributes, tensors: Tensors) -> None:
    """Store, and set keys and values to what is then in the cache, [KV, KVH, D] for each
    sequence."""
    for b in range(sequences(attributes, tensors)):
        start = int(tensors.start_pos.reshape(-1)[b if attributes.dynamic_batching else 0])
        cache = layer_view(attributes, tensors.cache, b)
        scale = None if tensors.scale is None else layer_view(attributes, tensors.scale, b)
        loaded = []
        for kv, current in enumerate((tensors.current_key, tensors.current_value)):
            rows = tokens_of(attributes, tensors, current, b)
            slots = slots_of(attributes, tensors, b, start + len(rows))
            store(attributes, cache, scale, rows, kv, slots[start:])
            loaded.append(load(attributes, cache, scale, kv, slots))
        tensors.keys.append(loaded[0])
        tensors.values.append(loaded[1])


def mask_of(attributes: Attributes, tensors: Tensors, b: int, positions: int) -> np.ndarray | None:
    mask = tensors.attn_mask
    if mask is None:
        return None
    if attributes.dynamic_batching:
        first, last = tensors.seqstarts[b], tensors.seqstarts[b + 1]
        columns = tensors.kvstarts[b]
        return decode(attributes.T1, mask[..., first:last, columns : columns + positions])
    rows = mask[min(b, mask.shape[0] - 1)] if mask.ndim == 4 else mask
    return decode(attributes.T1, rows[..., :positions])


def multi_head_attention(attributes: Attributes, tensors: Tensors) -> list[np.ndarray]:
    """Return attn_output of each sequence, decoded, over tensors.keys and tensors.values."""
    outputs = []
    for b in range(sequences(attributes, tensors)):
        query = tokens_of(attributes, tensors, tensors.query, b)
        key, value = tensors.keys[b], tensors.values[b]
        causal = attributes.is_causal and len(query) > 1
        if attributes.dynamic_batching and b < tensors.decoding_batches:
            causal = False
        mask = mask_of(attributes, tensors, b, len(key))
        outputs.append(attend(attributes, query, key, value, mask, causal))
    return outputs
