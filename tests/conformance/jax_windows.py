"""Gathers and scatters as JAX writes them: JAX lowers them to StableHLO text, `kvmill run` runs the text, and the results
have the bits that XLA computes on the CPU.  vmap creates batching dims; `kvmill rewrite` also removes them, and both
kvmill and XLA run the rewritten programs.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import kvmill  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.extend.backend import get_backend  # noqa: E402
from jax.interpreters import mlir  # noqa: E402
from jaxlib import xla_client  # noqa: E402
from jaxlib.mlir import ir  # noqa: E402
from tap import Tap  # noqa: E402

jax.config.update("jax_enable_x64", True)

WORDS = {
    "bool": "i1",
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
} | {f"{sign}int{bits}": f"{sign}i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def type_of(array: np.ndarray) -> str:
    return "tensor<" + "".join(f"{n}x" for n in array.shape) + WORDS[str(array.dtype)] + ">"


def literal(array: np.ndarray) -> str:
    """Return a dense literal: booleans as words, all other types by their bytes."""
    if array.size == 0:
        body = ""
    elif array.dtype == bool:
        body = str(array.tolist()).lower()
    else:
        body = '"0x' + np.ascontiguousarray(array).tobytes().hex() + '"'
    return f"dense<{body}> : {type_of(array)}"


def program(function: Callable[..., Any], arguments: list[np.ndarray]) -> str:
    """Return the lowered function with a main function that calls it on the arguments and checks
    the result."""
    jitted = jax.jit(function)
    text = jitted.lower(*arguments).as_text().replace("@main", "@program")
    expected = np.asarray(jitted(*arguments))
    lines = [f"    %in{i} = stablehlo.constant {literal(a)}" for i, a in enumerate(arguments)]
    names = ", ".join(f"%in{i}" for i in range(len(arguments)))
    types = ", ".join(type_of(a) for a in arguments)
    lines.append(f"    %out = call @program({names}) : ({types}) -> {type_of(expected)}")
    lines.append(f"    check.expect_eq_const %out, {literal(expected)}")
    body = "\n".join(lines)
    end = text.rstrip().rfind("}")
    return f"{text[:end]}  func.func @main() {{\n{body}\n    return\n  }}\n}}\n"


# ---- Cases ----

Case = tuple[str, Callable[..., Any], list[np.ndarray]]


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    values = rng.integers(-50, 50, shape)
    if np.dtype(dtype) == bool:
        return values > 0
    if jnp.issubdtype(dtype, jnp.unsignedinteger):
        values = np.abs(values)
    return (values / 4 if jnp.issubdtype(dtype, jnp.inexact) else values).astype(dtype)


def indices(rng: np.random.Generator, shape: tuple[int, ...], dim: int, dtype: Any) -> np.ndarray:
    values = rng.integers(-2 * dim, 2 * dim, shape)
    return (np.abs(values) if jnp.issubdtype(dtype, jnp.unsignedinteger) else values).astype(dtype)


TYPES = [jnp.float32, jnp.bfloat16, jnp.float16, jnp.float64, jnp.int8, jnp.int32, jnp.uint16, jnp.uint64, bool]
REAL = TYPES[:-1]
INDEX_TYPES = [jnp.int32, jnp.int64, jnp.uint8, jnp.int16, jnp.uint32]


def takes(rng: np.random.Generator) -> list[Case]:
    cases: list[Case] = []
    for t, dtype in enumerate([*TYPES, jnp.complex64]):
        index_type = INDEX_TYPES[t % len(INDEX_TYPES)]
        x = numbers(rng, (5, 4, 6), dtype)
        for axis in range(3):
            i = indices(rng, (3, 2), x.shape[axis], index_type)
            for mode in ("fill", "clip", "wrap"):
                name = f"take {np.dtype(dtype).name} by {np.dtype(index_type).name} axis {axis} {mode}"
                cases.append((name, lambda x, i, a=axis, m=mode: jnp.take(x, i, axis=a, mode=m), [x, i]))
        along = indices(rng, (5, 4, 3), 6, jnp.int32)
        cases.append(
            (
                f"take_along_axis {np.dtype(dtype).name}",
                lambda x, i: jnp.take_along_axis(x, i, axis=2),
                [x, along],
            )
        )
    return cases


def vmapped_gathers(rng: np.random.Generator) -> list[Case]:
    def row(x, i):
        return x[i]

    def window(x, i):
        return lax.dynamic_slice(x, (i[0], i[1]), (2, 3))

    x = numbers(rng, (4, 7, 5), jnp.float32)
    i = indices(rng, (4, 3), 7, jnp.int32)
    starts = indices(rng, (4, 3, 2), 5, jnp.int32)
    deep = numbers(rng, (2, 3, 6, 5), jnp.int16)
    deep_i = indices(rng, (3, 2, 4), 6, jnp.int32)
    return [
        ("vmap of rows", jax.vmap(row), [x, i]),
        ("vmap of rows over the last axis of both", jax.vmap(row, in_axes=(1, 1), out_axes=1), [x[:, :3], i]),
        ("vmap of slices", jax.vmap(window), [x, starts[:, 0]]),
        ("vmap of vmap of slices", jax.vmap(jax.vmap(window, in_axes=(None, 0))), [x, starts]),
        (
            "two batching dims, crossed",
            jax.vmap(jax.vmap(row), in_axes=(0, 1), out_axes=1),
            [deep, deep_i],
        ),
    ]


def updates(rng: np.random.Generator) -> list[Case]:
    cases: list[Case] = []
    for t, dtype in enumerate(REAL):
        index_type = INDEX_TYPES[t % len(INDEX_TYPES)]
        x = numbers(rng, (6, 5), dtype)
        i = indices(rng, (4,), 6, index_type)
        u = numbers(rng, (4, 5), dtype)
        for what in ("set", "add", "multiply", "min", "max"):
            # JAX does not define the order of several updates of one element; our sums and products
            # are exact.
            at = np.unique(i) if what == "set" else i
            for mode in ("drop", "clip") if what != "set" else ("drop",):
                cases.append(
                    (
                        f"at[].{what} {np.dtype(dtype).name} by {np.dtype(index_type).name} {mode}",
                        lambda x, i, u, w=what, m=mode: getattr(x.at[i], w)(u, mode=m),
                        [x, at, u[: len(at)]],
                    )
                )
    return cases


def vmapped_scatters(rng: np.random.Generator) -> list[Case]:
    def add(x, i, u):
        return x.at[i].add(u, mode="drop")

    def window(x, i, u):
        return lax.dynamic_update_slice(x, u, (i[0], i[1]))

    def squares(x, i):
        return x.at[i].apply(lambda v: v * v - 1)

    x = numbers(rng, (4, 7, 5), jnp.float32)
    i = indices(rng, (4, 3), 7, jnp.int32)
    u = numbers(rng, (4, 3, 5), jnp.float32)
    starts = indices(rng, (4, 2), 5, jnp.int32)
    return [
        ("vmap of adds", jax.vmap(add), [x, i, u]),
        ("vmap of adds over other axes", jax.vmap(add, in_axes=(1, 1, 1), out_axes=1), [x[:, :3], i, u]),
        ("vmap of updates of slices", jax.vmap(window), [x, starts, u[:, :2, :3]]),
        ("a function of the region's own", squares, [x[0], np.array([0, 3, 5], np.int32)]),
    ]


def slices(rng: np.random.Generator) -> list[Case]:
    """Slices of updated arrays, most of which begin outside."""

    def store_and_load(x, u, at, start):
        return lax.dynamic_slice(lax.dynamic_update_slice(x, u, tuple(at)), tuple(start), (3, 5, 1))

    cases: list[Case] = []
    for t, dtype in enumerate([*TYPES, jnp.complex64]):
        index_type = INDEX_TYPES[t % len(INDEX_TYPES)]
        x, u = numbers(rng, (6, 5, 4), dtype), numbers(rng, (2, 5, 3), dtype)
        at, start = indices(rng, (3,), 6, index_type), indices(rng, (3,), 6, index_type)
        name = f"slice of an update {np.dtype(dtype).name} by {np.dtype(index_type).name}"
        cases.append((name, store_and_load, [x, u, at, start]))
    return cases


def windows(rng: np.random.Generator) -> list[Case]:
    """lax.gather and lax.scatter with windows at any axes."""
    x = numbers(rng, (6, 5, 4), jnp.float32)
    i = indices(rng, (3, 2), 4, jnp.int32)
    gather = lax.GatherDimensionNumbers(
        offset_dims=(0, 2), collapsed_slice_dims=(1,), start_index_map=(2, 0)
    )
    scatter = lax.ScatterDimensionNumbers(
        update_window_dims=(0, 2), inserted_window_dims=(1,), scatter_dims_to_operand_dims=(2, 0)
    )
    u = numbers(rng, (3, 3, 2), jnp.float32)
    modes = {"clip": lax.GatherScatterMode.CLIP, "fill": lax.GatherScatterMode.FILL_OR_DROP}
    cases: list[Case] = []
    for word, mode in modes.items():
        cases.append(
            (
                f"lax.gather {word}",
                lambda x, i, m=mode: lax.gather(x, i, gather, (3, 1, 2), mode=m),
                [x, i],
            )
        )
        for name in ("scatter_add", "scatter_min", "scatter_max", "scatter_mul"):
            cases.append(
                (
                    f"lax.{name} {word}",
                    lambda x, i, u, n=name, m=mode: getattr(lax, n)(x, i, u, scatter, mode=m),
                    [x, i, u],
                )
            )
    return cases


# ---- Running ----


def run_file(command: str, path: str) -> tuple[bool, str]:
    result = subprocess.run(
        [command, "run", path, "--window-out-of-bounds", "skip_window"],
        capture_output=True,
        text=True,
        check=False,
    )
    return result.returncode == 0 and ": pass" in result.stdout, result.stdout + result.stderr


def has_batching(text: str) -> bool:
    return bool(re.search(r"(operand|input)_batching_dims = \[", text))


def run_case(command: str, directory: str, case: Case) -> tuple[bool, str, bool]:
    """Run a case.  Returns whether it passes, the output, and whether it has batching dims."""
    path = os.path.join(directory, "case.mlir")
    text = program(*case[1:])
    with open(path, "w", encoding="utf8") as file:
        file.write(text)
    return *run_file(command, path), has_batching(text)


def rewrite(command: str, text: str, directory: str) -> str:
    """Write the text to a file and rewrite it."""
    path, target = (os.path.join(directory, name) for name in ("before.mlir", "after.mlir"))
    with open(path, "w", encoding="utf8") as file:
        file.write(text)
    subprocess.run(
        [command, "rewrite", path, "--without-batching-dims", "-o", target], stdout=subprocess.DEVNULL, check=True
    )
    return target


def compute(text: str, arguments: list[np.ndarray]) -> np.ndarray:
    """Return what XLA computes for the text, which XLA's own reader verifies."""
    with mlir.make_ir_context():
        module = str(ir.Module.parse(text))
    devices = xla_client.DeviceList(tuple(jax.local_devices()[:1]))
    compiled = get_backend().compile_and_load(module, devices, xla_client.CompileOptions())
    result = compiled.execute_sharded([jax.device_put(a) for a in arguments])
    return np.asarray(result.disassemble_into_single_device_arrays()[0][0])


def run_rewritten(command: str, directory: str, case: Case) -> tuple[bool, str]:
    """Run the program without batching dims: with its checks by kvmill, and without them by XLA."""
    _, function, arguments = case
    passed, said = run_file(command, rewrite(command, program(function, arguments), directory))
    jitted = jax.jit(function)
    with open(rewrite(command, jitted.lower(*arguments).as_text(), directory), encoding="utf8") as file:
        text = file.read()
    same = compute(text, arguments).tobytes() == np.asarray(jitted(*arguments)).tobytes()
    return passed and same and not has_batching(text), said + text


def bound_scatters(tap: Tap, packs: Sequence[kvmill.Pack], seed: int) -> None:
    """Compare Scatter in Python with XLA, also in place."""
    rng = np.random.default_rng(seed)
    for dtype in REAL:
        x, u = numbers(rng, (6, 5), dtype), numbers(rng, (4, 5), dtype)
        i = np.abs(indices(rng, (4,), 6, jnp.int32))
        expected = np.asarray(jax.jit(lambda x, i, u: x.at[i].add(u, mode="drop"))(x, i, u))
        plan = kvmill.Scatter(
            x,
            i[:, np.newaxis],
            u,
            update_window_dims=[1],
            inserted_window_dims=[0],
            scatter_dims_to_operand_dims=[0],
            index_vector_dim=1,
            window_out_of_bounds="skip_window",
            update_computation="add",
            packs=packs,
        )
        made = plan.run(x, i[:, np.newaxis], u)
        plan.run(x, i[:, np.newaxis], u, results=x)
        name = f"binding: {np.dtype(dtype).name}, {plan.describe().partition('apply with ')[2]}"
        tap.result(np.array_equal(made, expected) and np.array_equal(x, expected), name)


def run(tap: Tap, command: str, packs: Sequence[kvmill.Pack], seed: int) -> None:
    rng = np.random.default_rng(seed)
    batching = 0
    with tempfile.TemporaryDirectory() as directory:
        for make in (takes, vmapped_gathers, updates, vmapped_scatters, slices, windows):
            for case in make(rng):
                passed, said, batched = run_case(command, directory, case)
                tap.result(passed, f"jax {jax.__version__}: {case[0]}", "" if passed else said[:600])
                batching += batched
                if batched:
                    passed, said = run_rewritten(command, directory, case)
                    tap.result(passed, f"  without batching dims: {case[0]}", "" if passed else said[:900])
    bound_scatters(tap, packs, seed)
    tap.result(batching >= 5, f"{batching} programs have batching dims")
