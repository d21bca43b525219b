"""The Scatter of the binding with regions of StableHLO text: those that JAX prints, against XLA; types that change,
captures and constants, against NumPy; and what is refused.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import kvmill  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from tap import Tap, refused  # noqa: E402

jax.config.update("jax_enable_x64", True)

Packs = Sequence[kvmill.Pack]
ELEMENTS = {"inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0], "index_vector_dim": 1}
INDICES = np.array([[3], [0], [5]], np.int32)
FLOATS = ["float32", "float16", "float64", ml_dtypes.bfloat16]
WORDS = {"float32": "f32", "float16": "f16", "float64": "f64", "bfloat16": "bf16", "int8": "i8", "uint16": "ui16"} | {
    "bool": "i1",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    "float8_e4m3fn": "f8E4M3FN",
}


def applied(x: np.ndarray, u: np.ndarray, text: str, packs: Packs, **more: object) -> np.ndarray:
    plan = kvmill.Scatter(x, INDICES, u, update_computation=text, packs=packs, **ELEMENTS, **more)
    return plan.run(x, INDICES, u)


def equal(made: np.ndarray, want: np.ndarray) -> None:
    assert made.dtype == want.dtype and made.tobytes() == want.tobytes(), f"{made}, expected: {want}"


# ---- What JAX prints ----


def chosen(v: jax.Array) -> jax.Array:
    return lax.select(v > 2, v * 3 - 1, lax.min(-v, lax.full_like(v, 0.375)))


UPDATES: dict[str, Callable] = {
    "add": lambda x, u: x.at[INDICES[:, 0]].add(u),
    "multiply": lambda x, u: x.at[INDICES[:, 0]].multiply(u),
    "min": lambda x, u: x.at[INDICES[:, 0]].min(u),
    "set": lambda x, u: x.at[INDICES[:, 0]].set(u),
    "apply": lambda x, _: x.at[INDICES[:, 0]].apply(chosen),
}


def printed(name: str, dtype: object, packs: Packs) -> None:
    x = jax.numpy.asarray((np.arange(-3, 4) * 1.25).astype(dtype))
    u = jax.numpy.asarray(np.array([1.5, -2, 7]).astype(dtype))
    jitted = jax.jit(UPDATES[name])
    match = re.search(r'"stablehlo.scatter".*?\(\{\s*(\^.*?)\s*\}\)', jitted.lower(x, u).as_text(), re.DOTALL)
    assert match is not None
    equal(applied(np.asarray(x), np.asarray(u), match[1], packs), np.asarray(jitted(x, u)))


# ---- Types ----


def promotion(packs: Packs) -> None:
    x, u = np.array([1, 2, 3, 100, 5, 6], np.int8), np.array([100, 2, -3], np.int8)
    text = """^bb0(%a: tensor<i32>, %b: tensor<i32>):  // sums that int8 has not
        %0 = "stablehlo.add"(%a, %b) : (tensor<i32>, tensor<i32>) -> (tensor<i32>)
        "stablehlo.return"(%0) : (tensor<i32>) -> ()"""
    equal(applied(x, u, text, packs), np.array([3, 2, 3, 200, 5, 3], np.int32))


def captures(packs: Packs) -> None:
    x, u = np.arange(6, dtype=np.float32), np.array([10, 20, 30], np.float32)
    text = """^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.compare GT, %b, %capture1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %s = stablehlo.select %c, %a, %capture0 : tensor<i1>, tensor<f32>
        stablehlo.return %s : tensor<f32>"""
    given = [np.float32(-1), np.float32(15), np.int8(1)]  # nobody reads the last one
    plan = kvmill.Scatter(x, INDICES, u, update_computation=text, captures=given, packs=packs, **ELEMENTS)
    equal(plan.run(x, INDICES, u), np.array([0, 1, 2, -1, 4, 5], np.float32))
    other = [np.float32(7), np.float32(25), np.int8(2)]
    equal(plan.run(x, INDICES, u, captures=other), np.array([7, 1, 2, 7, 4, 5], np.float32))
    refused("2 captures; accepted: 3", lambda: plan.run(x, INDICES, u, captures=given[:2]), ValueError)


def variadic(packs: Packs) -> None:
    x, y = np.arange(6, dtype=np.int32), np.arange(6).astype(np.float64)
    u, v = np.array([10, 20, 30], np.int32), np.array([0.5, 0.25, 2])
    text = """^bb0(%a: tensor<i32>, %b: tensor<f64>, %u: tensor<i32>, %v: tensor<f64>):
        %0 = stablehlo.subtract %u, %a : tensor<i32>
        %1 = stablehlo.convert %a : (tensor<i32>) -> tensor<f64>
        %2 = stablehlo.multiply %1, %v : tensor<f64>
        stablehlo.return %0, %2 : tensor<i32>, tensor<f64>"""
    plan = kvmill.Scatter([x, y], INDICES, [u, v], update_computation=text, packs=packs, **ELEMENTS)
    made = plan.run([x, y], INDICES, [u, v])
    equal(made[0], np.array([20, 1, 2, 7, 4, 25], np.int32))
    equal(made[1], np.array([0, 1, 2, 1.5, 4, 10], np.float64))


CONSTANTS = [
    ("float32", "1.000000e-01", 0.1),
    ("float32", "0x7F800000", np.inf),
    ("float16", "0.1", 0.1),
    ("float16", "1e6", np.inf),
    ("float64", "-2.5", -2.5),
    (ml_dtypes.bfloat16, "0.1", 0.1),
    (ml_dtypes.float8_e4m3fn, "0.3", 0.3),
    ("int8", "-128", -128),
    ("uint16", "65535", 65535),
    ("bool", "true", True),
    ("complex64", "(1.5, -2.0)", 1.5 - 2j),
    ("complex128", "(0.1, 0x3FF0000000000000)", 0.1 + 1j),
]


def constant(dtype: object, literal: str, value: complex, packs: Packs) -> None:
    word = WORDS[np.dtype(dtype).name]
    x, u = np.zeros(6, dtype), np.zeros(3, dtype)
    want = x.copy()
    want[INDICES[:, 0]] = np.array(value).astype(dtype)
    for form in (
        f"%0 = stablehlo.constant dense<{literal}> : tensor<{word}>",
        f'%0 = "stablehlo.constant"() <{{value = dense<{literal}> : tensor<{word}>}}> : () -> tensor<{word}>',
    ):
        text = f"^bb0(%a: tensor<{word}>, %b: tensor<{word}>): {form} stablehlo.return %0 : tensor<{word}>"
        equal(applied(x, u, text, packs), want)


# ---- Refusals ----

HEAD = "^bb0(%a: tensor<f32>, %b: tensor<f32>):"
RETURN = "stablehlo.return %a : tensor<f32>"
REFUSALS = [
    ("^bb0(%a: tensor<f32>", "region:1:21: found ''; accepted: ,"),
    ("^bb0(%a: tensor<2xf32>): ", "region:1:10: found 'tensor<2xf32>): '; accepted: scalars"),
    ("^bb0(%a: tensor<f32>, %a: tensor<f32>): ", "accepted: each name once, and %a is there"),
    (f"{HEAD}\n  %0 = stablehlo.add %a, %c : tensor<f32>", "region:2:26: found '%c : tensor<f32>'; accepted: values"),
    (f"{HEAD} %0 = stablehlo.negate %capture0 : tensor<f32>", "accepted: values defined before their use, %capture0"),
    (f"{HEAD} %0 = func.call %a : tensor<f32>", "found 'func.call %a : tensor<f32>'; accepted: ops of stablehlo"),
    (f"{HEAD} %0 = stablehlo.constant dense<300> : tensor<i8> {RETURN}", "accepted: a type that 300 fits"),
    (f"{HEAD} stablehlo.add %a, %b : tensor<f32> {RETURN}", "accepted: ops of at most three operands and one result"),
    (f"{HEAD} {RETURN} {RETURN}", "accepted: nothing after stablehlo.return"),
    (f"{HEAD} ?", "found '?'; accepted: StableHLO text"),
    (f"{HEAD} stablehlo.return %a, %b : tensor<f32>, tensor<f32>", "C23: a region of 2 arguments that returns 2"),
    (f"{HEAD} %0 = stablehlo.frown %a : tensor<f32> {RETURN}", "frown"),
    (f"{HEAD} %0 = stablehlo.convert %a : (tensor<f32>) -> tensor<i32> stablehlo.return %0 : tensor<i32>", "C23"),
]


def refusals(packs: Packs) -> None:
    x, u = np.zeros(6, np.float32), np.zeros(3, np.float32)
    for text, words in REFUSALS:
        refused(words, lambda text=text: applied(x, u, text, packs), (ValueError, kvmill.KvmillError))
    named = f"{HEAD} %capture0 = stablehlo.negate %a : tensor<f32> {RETURN}"
    words = "each name once, and %capture0 is there"
    refused(words, lambda: applied(x, u, named, packs, captures=[x[0]]), ValueError)
    refused("captures of 'add'", lambda: applied(x, u, "add", packs, captures=[x[0]]), ValueError)


def run(tap: Tap, packs: Packs) -> None:
    for name in UPDATES:
        for dtype in FLOATS:
            word = np.dtype(dtype).name
            tap.run(f"region of JAX: {name}, {word}", lambda n=name, d=dtype: printed(n, d, packs))
    for test in (promotion, captures, variadic, refusals):
        tap.run(f"region: {test.__name__}", lambda test=test: test(packs))
    for row in CONSTANTS:
        tap.run(f"region: the constant {row[1]}, {np.dtype(row[0]).name}", lambda row=row: constant(*row, packs))
