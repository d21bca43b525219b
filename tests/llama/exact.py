"""Computes the attention nodes of a ggml graph again, in double precision, from their operands.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes

import numpy as np


class Tensor(ctypes.Structure):
    """The part of struct ggml_tensor that is used here."""

    _fields_ = [
        ("type", ctypes.c_int32),
        ("buffer", ctypes.c_void_p),
        ("ne", ctypes.c_int64 * 4),
        ("nb", ctypes.c_size_t * 4),
        ("op", ctypes.c_int32),
        ("params", ctypes.c_float * 16),
        ("flags", ctypes.c_int32),
        ("src", ctypes.c_void_p * 10),
        ("view", ctypes.c_void_p),
        ("offset", ctypes.c_size_t),
        ("data", ctypes.c_void_p),
    ]

    def array(self) -> np.ndarray:
        """The elements without a copy, in the reverse of ggml's order of dims."""
        dtype = {0: np.float32, 1: np.float16}[self.type]
        size = sum((n - 1) * step for n, step in zip(self.ne, self.nb, strict=True))
        size += np.dtype(dtype).itemsize
        memory = (ctypes.c_uint8 * size).from_address(self.data)
        return np.ndarray(self.ne[::-1], dtype, memory, 0, self.nb[::-1])


def attention(node: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the result of a FLASH_ATTN_EXT node, which may be changed, and the result in double
    precision: [batch, query, head, element].  Supports masks, but not ALiBi, soft-caps and
    sinks."""
    out = Tensor.from_address(node)
    scale, max_bias, softcap = out.params[:3]
    assert max_bias == 0 and softcap == 0 and not out.src[4], "not what Gemma-3 has"
    query, key, value, mask = (Tensor.from_address(out.src[i]).array() for i in range(4))
    given = out.array()
    expected = np.empty(given.shape)
    ratio = query.shape[1] // key.shape[1]
    for b, h in np.ndindex(query.shape[:2]):
        bias = mask[b % mask.shape[0], h % mask.shape[1], : query.shape[2]].astype("f8")
        seen = np.isfinite(bias).any(axis=0)
        rows = (x[b, h // ratio][seen].astype("f8") for x in (key, value))
        keys, values = rows
        scores = query[b, h].astype("f8") @ keys.T * scale + bias[:, seen]
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        expected[b, :, h] = weights @ values / weights.sum(axis=1, keepdims=True)
    return given, expected


class Errors:
    """Errors of nodes: the largest error, divided by the largest element of the exact result."""

    def __init__(self) -> None:
        self.of: list[float] = []

    def watch(self, node: int) -> None:
        given, expected = attention(node)
        self.of.append(float(np.abs(given - expected).max() / np.abs(expected).max()))


def replace(node: int) -> None:
    """Replace the node's result by the exact one, so that the model continues with it."""
    given, expected = attention(node)
    given[...] = expected
