"""Scatter in Python, with regions as texts and quantised elements, compared with loops in NumPy.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import kvmill
import numpy as np
from tap import Tap, refused

ERRORS = (kvmill.KvmillError, TypeError, ValueError)
ROWS, DIM, COUNT = 7, 3, 12
NUMBERS = {
    "update_window_dims": [1],
    "inserted_window_dims": [0],
    "scatter_dims_to_operand_dims": [0],
    "index_vector_dim": 1,
    "portable": "allow",
}

FLOAT = "^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
SCALED = FLOAT + """
  %0 = stablehlo.multiply %b, %capture0 : tensor<f32>
  %1 = stablehlo.add %a, %0 : tensor<f32>
  %2 = stablehlo.minimum %1, %capture2 : tensor<f32>
  stablehlo.return %2 : tensor<f32>
"""

# The larger of two numbers, with its label; the first one if they are equal.
BEST = """^bb0(%a: tensor<f32>, %i: tensor<i32>, %b: tensor<f32>, %j: tensor<i32>):
  %0 = stablehlo.compare GT, %b, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %1 = stablehlo.select %0, %b, %a : tensor<i1>, tensor<f32>
  %2 = stablehlo.select %0, %j, %i : tensor<i1>, tensor<i32>
  stablehlo.return %1, %2 : tensor<f32>, tensor<i32>
"""

WIDE = """^bb0(%a: tensor<f64>, %b: tensor<f64>):
  %0 = stablehlo.add %a, %b : tensor<f64>
  stablehlo.return %0 : tensor<f64>
"""


def operands(rng: np.random.Generator, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw small integers, and indices of which some are outside and some are equal."""
    inputs = rng.integers(-8, 8, (ROWS, DIM)).astype(dtype)
    updates = rng.integers(-8, 8, (COUNT, DIM)).astype(dtype)
    return inputs, rng.integers(-1, ROWS + 1, (COUNT, 1)).astype(np.int32), updates


def scattered(inputs: np.ndarray, indices: np.ndarray, updates: np.ndarray, combine: Callable) -> np.ndarray:
    """Combine row after row in double precision; rows outside are skipped."""
    results = inputs.astype(np.float64)
    for (at,), update in zip(indices, updates.astype(np.float64)):
        if 0 <= at < ROWS:
            results[at] = combine(results[at], update)
    return results


def captured(rng: np.random.Generator, packs: Sequence[kvmill.Pack]) -> None:
    inputs, indices, updates = operands(rng, "float32")
    types = ["tensor<f32>"] * 3
    plan = kvmill.Scatter(inputs, indices, updates, **NUMBERS, packs=packs, region=SCALED, captures=types)
    want = scattered(inputs, indices, updates, lambda a, b: np.minimum(a + 0.5 * b, 5))
    scalars = [np.float32(0.5), np.float32(99), np.array(5, np.float32)]
    kept = inputs.copy()
    assert (plan.run(inputs, indices, updates, captures=scalars) == want).all()
    assert (inputs == kept).all() and (want != inputs).any()
    call = plan.prepare(inputs, indices, updates, inputs, scalars)
    call.run()
    assert (inputs == want).all()
    refused("captures has 2 scalars; accepted: 3", lambda: plan.run(inputs, indices, updates, captures=scalars[1:]), ERRORS)
    refused("captures[0] has type f64; accepted: f32", lambda: plan.run(inputs, indices, updates, captures=[0.5, *scalars[1:]]), ERRORS)


def several(rng: np.random.Generator, packs: Sequence[kvmill.Pack]) -> None:
    inputs, indices, updates = operands(rng, "float32")
    labels, fresh = np.zeros((ROWS, DIM), np.int32), rng.integers(1, 99, (COUNT, DIM)).astype(np.int32)
    plan = kvmill.Scatter([inputs, labels], indices, [updates, fresh], **NUMBERS, packs=packs, region=BEST)
    best, label = plan.run([inputs, labels], indices, [updates, fresh])
    want, wanted = inputs.copy(), labels.copy()
    for (at,), update, name in zip(indices, updates, fresh):
        if 0 <= at < ROWS:
            better = update > want[at]
            want[at], wanted[at] = np.where(better, update, want[at]), np.where(better, name, wanted[at])
    assert (best == want).all() and (label == wanted).all() and label.any()


def promoted(rng: np.random.Generator, packs: Sequence[kvmill.Pack]) -> None:
    """The region computes in a wider type, which is also the results' type."""
    inputs, indices, updates = operands(rng, "float32")
    inputs, updates = inputs + np.float32(2**-20), updates * np.float32(2**-30)
    plan = kvmill.Scatter(inputs, indices, updates, **NUMBERS, packs=packs, region=WIDE)
    results = plan.run(inputs, indices, updates)
    assert results.dtype == np.float64
    assert (results == scattered(inputs, indices, updates, np.add)).all()


def quantised(rng: np.random.Generator, packs: Sequence[kvmill.Pack], stored: str, low: int, high: int) -> None:
    """Codes are dequantised, added, and quantised again, once for each update."""
    element = f"!quant.uniform<{stored}:f32, 0.5:2>"
    region = FLOAT.replace("f32", element) + f"""
      %0 = stablehlo.add %a, %b : tensor<{element}>
      stablehlo.return %0 : tensor<{element}>
    """
    _, indices, _ = operands(rng, "int8")
    inputs, updates = (rng.integers(low, high + 1, (n, DIM)).astype(np.int8) for n in (ROWS, COUNT))
    if stored == "i4":  # one byte each, of which only the low half counts
        inputs, updates = inputs.view(np.uint8) & 15, updates.view(np.uint8) & 15

    def codes(array: np.ndarray) -> np.ndarray:
        return (array.astype(np.int8) ^ 8) - 8 if stored == "i4" else array

    def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.clip(np.rint(((a - 2) * 0.5 + (b - 2) * 0.5) / 0.5) + 2, low, high)

    want = scattered(codes(inputs), indices, codes(updates), add)
    for computation in ({"region": region}, {"update_computation": "add"}):
        plan = kvmill.Scatter(inputs, indices, updates, **NUMBERS, packs=packs, elements=element, **computation)
        results = plan.run(inputs, indices, updates)
        assert results.dtype == inputs.dtype and (codes(results) == want).all(), (results, want)
    assert ((want == low) | (want == high)).any()


def mixed(rng: np.random.Generator, packs: Sequence[kvmill.Pack]) -> None:
    """Two inputs, of which one is quantised."""
    inputs, indices, updates = operands(rng, "int8")
    plain, more = inputs.astype(np.float32), updates.astype(np.float32)
    given = [inputs, plain], indices, [updates, more]
    plan = kvmill.Scatter(*given, **NUMBERS, packs=packs, elements=["!quant.uniform<i8:f32, 0.5>", None])
    for result, old, new in zip(plan.run(*given), given[0], given[2]):
        assert (result == scattered(old, indices, new, lambda _, b: b)).all()


CODES = "!quant.uniform<i8:f32, 0.5:2>"

# Wrong scatters, and parts of the messages, with the place in a text.
BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"region": "add"}, "region:1:1: found add"),
    ({"region": FLOAT + "  stablehlo.return %c : tensor<f32>"}, "region:2:20: %c is not defined"),
    ({"region": FLOAT}, "a region without stablehlo.return"),
    ({"region": BEST}, "C23: has 4 arguments and returns 2 values; accepted for 1 inputs: 2 and 1"),
    ({"region": SCALED}, "%capture0 is not defined"),
    ({"region": SCALED, "captures": ["f32"] * 3}, "accepted: a scalar, tensor<f32>"),
    ({"region": SCALED, "captures": [7]}, "captures is 7; accepted: a text"),
    ({"region": SCALED, "captures": ["tensor<f32>"] * 17}, "capture_count is 17; accepted: at most 16"),
    ({"region": 7}, "region is 7; accepted: a text"),
    ({"region": FLOAT + "\0"}, "accepted: a text without NUL"),
    ({"region": WIDE.replace("f64", "i32")}, "C"),
    ({"region": SCALED, "update_computation": "add"}, "and there is a region; accepted: one of them"),
    ({"captures": ["tensor<f32>"]}, "without a region; accepted: both, or none"),
    ({"elements": "!quant.uniform<i8:f32:1, {1.0, 2.0}>"}, "element type:1:1: not an element type that kvmill has; accepted: i1"),
    ({"elements": "!quant.uniform<i8:f32, -1>"}, "element type:1:26: the scale is -1; accepted: above 0"),
    ({"elements": [CODES] * 2}, "elements has 2 types; accepted: one for each of 1 arrays"),
    ({"elements": [7]}, "elements is 7; accepted: a text"),
    ({"elements": CODES}, "the element type of inputs[0] is !quant.uniform<i8<-128:127>:f32, 0.5:2>"),
    ({"update_elements": CODES}, "the element type of updates[0] is !quant"),
]


def refusals(rng: np.random.Generator) -> None:
    arrays = operands(rng, "float32")
    for broken, words in BROKEN:
        refused(words, lambda broken=broken: kvmill.Scatter(*arrays, **NUMBERS, **broken), ERRORS)
    codes, indices, updates = operands(rng, "int8")
    plan = kvmill.Scatter(codes, indices, updates, **NUMBERS, elements=CODES)
    refused("type", lambda: plan.run(codes.astype(np.int16), indices, updates), ERRORS)
    other = {"elements": CODES, "update_elements": CODES.replace(":2", ":3")}
    refused("C6", lambda: kvmill.Scatter(codes, indices, updates, **NUMBERS, **other, update_computation="add"), ERRORS)


def guide() -> None:
    """The program in the guide prints what its comments say."""
    page = (Path(kvmill.__file__).resolve().parents[3] / "doc" / "guide" / "stablehlo.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    wanted = [[float(n) for n in said.split(",")] for said in re.findall(r"# \[(.*)\]", program)]
    printed: list[list[float]] = []
    exec(program, {"print": lambda array: printed.append(array.tolist())})
    assert len(wanted) == 2 and printed == wanted, printed


def run(tap: Tap, packs: Sequence[kvmill.Pack], seed: int) -> None:
    rng = np.random.default_rng(seed)
    tap.run("scatter: a region's text, with captures", partial(captured, rng, packs))
    tap.run("scatter: a region of two inputs", partial(several, rng, packs))
    tap.run("scatter: a region of wider numbers", partial(promoted, rng, packs))
    tap.run("scatter: quantised, i8", partial(quantised, rng, packs, "i8", -128, 127))
    tap.run("scatter: quantised, i4", partial(quantised, rng, packs, "i4", -8, 7))
    tap.run("scatter: one of two inputs quantised", partial(mixed, rng, packs))
    tap.run("scatters of the guide", guide)
    tap.run("scatters are refused", partial(refusals, rng))
