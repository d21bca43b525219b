"""Gather in Python, compared with JAX: defaults, fill values, batching dims, and types that only
ml_dtypes has.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

os.environ["JAX_PLATFORMS"] = "cpu"

import jax.numpy as jnp  # noqa: E402
import kvmill  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
from tap import Tap, refused  # noqa: E402

ERRORS = (kvmill.KvmillError, ValueError)

DTYPES = ["float32", "float16", "int8", "uint16", "int64", "complex64", "bool"]
ML_DTYPES = [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4]

ROWS = {
    "offset_dims": [1],
    "collapsed_slice_dims": [0],
    "start_index_map": [0],
    "index_vector_dim": 1,
}
ALONG = {
    "collapsed_slice_dims": [0],
    "start_index_map": [0],
    "operand_batching_dims": [1],
    "start_indices_batching_dims": [1],
    "index_vector_dim": 2,
    "slice_sizes": [1, 1],
}


def table(rng: np.random.Generator, shape: tuple[int, ...], dtype: object) -> np.ndarray:
    return rng.integers(0, 8, shape).astype(dtype)


def check(
    expected: object, plan: kvmill.Gather, operand: np.ndarray, indices: np.ndarray
) -> None:
    """A new result, a result in the caller's array with strides, and a result by threads have the
    same bytes."""
    want = np.asarray(expected)
    spread = np.zeros((*want.shape, 2), want.dtype)[..., 0]
    shared = np.zeros_like(want)
    results = [plan.run(operand, indices), plan.run(operand, indices, spread), shared]
    with ThreadPoolExecutor(2) as executor:
        plan.prepare(operand, indices, shared).run_threads(executor)
    for result in results:
        assert result.dtype == want.dtype and result.shape == want.shape
        assert result.tobytes() == want.tobytes()


def rows(rng: np.random.Generator, packs: Sequence[kvmill.Pack], dtype: object, mode: str) -> None:
    operand = table(rng, (9, 5), dtype)
    indices = rng.integers(-3 if mode == "clip" else 0, 12, 7, dtype=np.int32)
    plan = kvmill.Gather(operand, indices, slice_sizes=[1, 5], mode=mode, packs=packs, **ROWS)
    check(jnp.take(operand, indices, axis=0, mode=mode), plan, operand, indices)


def filled(rng: np.random.Generator, packs: Sequence[kvmill.Pack]) -> None:
    operand = table(rng, (9, 5), "float32")
    indices = np.array([8, 9, 0], np.int32)
    plan = kvmill.Gather(
        operand, indices, slice_sizes=[1, 5], mode="fill", fill_value=7, packs=packs, **ROWS
    )
    expected = jnp.take(operand, indices, axis=0, mode="fill", fill_value=7)
    check(expected, plan, operand, indices)


def along(rng: np.random.Generator, packs: Sequence[kvmill.Pack]) -> None:
    operand = table(rng, (6, 4), "float32")
    indices = rng.integers(0, 6, (3, 4), dtype=np.int32)
    plan = kvmill.Gather(operand, indices, packs=packs, **ALONG)
    check(np.take_along_axis(operand, indices, 0), plan, operand, indices)


def from_shapes(rng: np.random.Generator, packs: Sequence[kvmill.Pack]) -> None:
    operand = table(rng, (9, 5), "float16")
    indices = np.array([3, 1], np.int32)
    plan = kvmill.Gather((9, 5), (2,), slice_sizes=[1, 5], dtype="float16", packs=packs, **ROWS)
    check(operand[indices], plan, operand, indices)


def refusals() -> None:
    operand, indices = np.zeros((9, 5), np.float32), np.zeros(2, np.int32)
    refused("C21", lambda: kvmill.Gather(operand, indices, slice_sizes=[1, 6], **ROWS), ERRORS)
    plan = kvmill.Gather(operand, indices, slice_sizes=[1, 5], **ROWS)
    refused("operand has shape [8", lambda: plan.run(operand[:8], indices), ERRORS)
    result = np.zeros((2, 5), np.float32)
    result.flags.writeable = False
    refused("result is read-only", lambda: plan.run(operand, indices, result), ERRORS)


def run(tap: Tap, packs: Sequence[kvmill.Pack], seed: int) -> None:
    rng = np.random.default_rng(seed)
    for dtype in [*DTYPES, *ML_DTYPES]:
        name = np.dtype(dtype).name
        tap.run(f"Gather of {name}", lambda t=dtype: rows(rng, packs, t, "clip"))
        if dtype in DTYPES:
            tap.run(f"Gather of {name}, fill", lambda t=dtype: rows(rng, packs, t, "fill"))
    tap.run("Gather with a fill value", lambda: filled(rng, packs))
    tap.run("Gather along an axis", lambda: along(rng, packs))
    tap.run("Gather planned from shapes", lambda: from_shapes(rng, packs))
    tap.run("Gather refuses", refusals)
