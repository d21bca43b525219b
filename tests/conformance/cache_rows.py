"""Random rows for a cache of CacheAttend, in every format: their bytes, and their values.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pmx_reference as reference

TYPES = ("float32", "float16", "bfloat16")
PLAIN = (*TYPES, *reference.LARGEST)
BLOCKS = {"q8_0": 34, "q4_0": 18, "q5_1": reference.BLOCK_BYTES["q5_1"]}
CODES = {"int8": 8, "int4": 4}


@dataclass
class Side:
    """K or V: rows [C, G, last dim], scales [C, G, groups] or None, values [C, G, dim]."""

    rows: np.ndarray
    scales: np.ndarray | None
    values: np.ndarray
    attributes: dict


def plain_side(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Side:
    rows = reference.encode(dtype, rng.standard_normal(shape))
    return Side(rows, None, reference.decode(dtype, rows), {"T2": dtype})


def code_side(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Side:
    bits, dim = CODES[dtype], shape[-1]
    group = int(rng.choice([g for g in range(2, dim + 1, 2) if dim % g == 0]))
    codes = rng.integers(-7, 8, shape).astype(np.int8) if bits == 4 else None
    codes = rng.integers(-127, 128, shape).astype(np.int8) if codes is None else codes
    T3 = str(rng.choice(TYPES))
    scales = reference.encode(T3, rng.random((*shape[:-1], dim // group)) * 2.0 ** (1 - bits))
    values = codes.astype(np.float64) * np.repeat(reference.decode(T3, scales), group, -1)
    rows = reference.pack_int4(codes) if bits == 4 else codes
    return Side(rows, scales, values, {"quant_bit": bits, "quant_group": group, "T3": T3})


def block_side(rng: np.random.Generator, word: str, shape: tuple[int, ...]) -> Side:
    """Draw blocks with random codes.  A block begins with its scale; q5_1 also has a minimum."""
    count = shape[-1] // reference.BLOCK
    blocks = rng.integers(0, 256, (*shape[:-1], count, BLOCKS[word])).astype(np.uint8)
    numbers = (rng.random((*blocks.shape[:-1], 2)) * 2 - 1).astype(np.float16)
    numbers[..., 0] *= np.float16(2.0**-7 if word == "q8_0" else 2.0**-3)
    kept = 4 if word == "q5_1" else 2
    blocks[..., :kept] = numbers.view(np.uint8)[..., :kept]
    scale = numbers[..., :1].astype(np.float64)
    if word == "q8_0":
        values = blocks[..., 2:].view(np.int8) * scale
    elif word == "q4_0":
        halves = np.concatenate([blocks[..., 2:] & 15, blocks[..., 2:] >> 4], -1)
        values = (halves.astype(np.float64) - 8) * scale
    else:
        values = reference.unpack_q5_1(blocks.reshape(*shape[:-1], -1))
    rows = blocks.reshape(*shape[:-1], -1)
    return Side(rows, None, values.reshape(shape), {"cache_format": word})


def side_of(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> Side:
    make = plain_side if name in PLAIN else code_side if name in CODES else block_side
    return make(rng, name, shape)


def random_side(rng: np.random.Generator, shape: tuple[int, ...]) -> Side:
    formats = [*PLAIN, *(CODES if shape[-1] % 2 == 0 else ())]
    formats += BLOCKS if shape[-1] % reference.BLOCK == 0 else ()
    return side_of(rng, str(rng.choice(formats)), shape)
