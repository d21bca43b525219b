"""Handlers for XLA's FFI, called by jitted JAX: gathers and scatters that JAX lowers to StableHLO text, made into a pack by
`kvmill generate --ffi --build`, compared bit for bit with what XLA computes itself.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax_windows import INDEX_TYPES, REAL, TYPES, indices, numbers
from tap import Tap

BARE = lax.GatherScatterMode.PROMISE_IN_BOUNDS  # lowered to the plain op: gathers clamp, scatters discard
ROWS = lax.GatherDimensionNumbers(
    offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,)
)
INTO_ROWS = lax.ScatterDimensionNumbers(
    update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
)
COMBINERS = (lax.scatter_add, lax.scatter_mul, lax.scatter_min, lax.scatter_max)


@dataclass
class Case:
    name: str
    function: Callable[..., Any]
    arguments: list[np.ndarray]
    constants: list[np.ndarray]  # arguments of the op that are constants in the function


def rows(x: Any, i: Any) -> Any:
    return lax.gather(x, i, ROWS, (1, 5), mode=BARE)


def gathers(rng: np.random.Generator) -> list[Case]:
    cases = []
    narrow = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3b11fnuz]
    for t, dtype in enumerate([*TYPES, jnp.complex64, jnp.complex128, *narrow]):
        index_type = INDEX_TYPES[t % len(INDEX_TYPES)]
        x, i = numbers(rng, (6, 5), dtype), indices(rng, (7, 1), 6, index_type)
        name = f"gather of {np.dtype(dtype).name} by {np.dtype(index_type).name}"
        cases.append(Case(name, rows, [x, i], []))
    x, i = numbers(rng, (6, 5, 4), jnp.float32), indices(rng, (3, 2), 4, jnp.int32)
    anywhere = lax.GatherDimensionNumbers(
        offset_dims=(0, 2), collapsed_slice_dims=(1,), start_index_map=(2, 0)
    )
    slices = lambda x, i: lax.gather(x, i, anywhere, (3, 1, 2), mode=BARE)  # noqa: E731
    cases.append(Case("gather of windows", slices, [x, i], []))
    table, many = numbers(rng, (50, 4096), jnp.float32), indices(rng, (900, 1), 50, jnp.int32)
    large = lambda x, i: lax.gather(x, i, ROWS, (1, 4096), mode=BARE)  # noqa: E731
    cases.append(Case("gather that is large enough for XLA's threads", large, [table, many], []))
    deep, deep_i = numbers(rng, (2, 3, 6, 5), jnp.int16), indices(rng, (2, 3, 4, 1), 6, jnp.int32)
    twice = jax.vmap(jax.vmap(rows))
    cases.append(Case("gather with two batching dims", twice, [deep, deep_i], []))
    return cases


def scatters(rng: np.random.Generator) -> list[Case]:
    def into_rows(combine: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, i, u: combine(x, i, u, INTO_ROWS, mode=BARE)

    cases = []
    for t, dtype in enumerate(REAL):
        combine, index_type = COMBINERS[t % len(COMBINERS)], INDEX_TYPES[t % len(INDEX_TYPES)]
        x, u = numbers(rng, (6, 5), dtype), numbers(rng, (4, 5), dtype)
        i = indices(rng, (4, 1), 6, index_type)
        name = f"{combine.__name__} of {np.dtype(dtype).name} by {np.dtype(index_type).name}"
        cases.append(Case(name, into_rows(combine), [x, i, u], []))
    x, u = numbers(rng, (6, 5), jnp.float32), numbers(rng, (3, 3, 2), jnp.float32)
    anywhere = lax.ScatterDimensionNumbers(
        update_window_dims=(0, 2), inserted_window_dims=(), scatter_dims_to_operand_dims=(1, 0)
    )
    i = np.array([[0, 0], [2, 1], [4, 5]], np.int32)  # two of them are partly or wholly outside
    windows = lambda x, i, u: lax.scatter_add(x, i, u, anywhere, mode=BARE)  # noqa: E731
    cases.append(Case("scatter_add of windows, some partly outside", windows, [x, i, u], []))
    put = np.array([[3], [0]], np.int32)
    cases.append(Case("scatter", into_rows(lax.scatter), [x, put, x[:2]], []))
    square = lambda x, i: lax.scatter_apply(  # noqa: E731
        x, i, lambda v: v * v - 1, INTO_ROWS, update_shape=(2, 5), mode=BARE
    )
    zeros = np.zeros((2, 5), np.float32)
    cases.append(Case("scatter_apply, a region of its own", square, [x, put], [zeros]))
    many, some = numbers(rng, (3, 6, 5), jnp.float32), numbers(rng, (3, 4, 5), jnp.float32)
    batched = jax.vmap(into_rows(lax.scatter_add))
    at = indices(rng, (3, 4, 1), 6, jnp.int32)
    cases.append(Case("scatter_add with a batching dim", batched, [many, at, some], []))
    return cases


def store_and_load(cache: Any, row: Any, at: Any) -> Any:
    """Return a cache with a new row, and the two rows from there on."""
    cache = lax.dynamic_update_slice(cache, row, (at, 0))
    return cache, lax.dynamic_slice(cache, (at, 0), (2, 5))


ROW_AND_CACHE = np.float32([[1.5, -2, 3, 0, 7]]), np.arange(30, dtype=np.float32).reshape(6, 5)


class Handlers:
    """The ops of some cases, and then of store_and_load, as FFI targets "kvmill_0", "kvmill_1", ..."""

    def __init__(self, command: str, directory: str, cases: list[Case]) -> None:
        path = os.path.join(directory, "cases.mlir")
        modules = [jax.jit(case.function).lower(*case.arguments).as_text() for case in cases]
        for case, module in zip(cases, modules, strict=True):
            assert len(re.findall(r'"stablehlo\.(gather|scatter)"', module)) == 1, f"{case.name}: {module}"
        row, cache = ROW_AND_CACHE
        modules.append(jax.jit(store_and_load).lower(cache, row, 0).as_text())
        with open(path, "w", encoding="utf8") as file:
            file.write("\n// -----\n".join(modules))
        isas = "scalar,avx2,avx512" if platform.machine() == "x86_64" else "scalar"
        options = ["--kernels", path, "--isa", isas, "--name", "cases", "--ffi", "--build"]
        made = subprocess.run(
            [command, "generate", *options, "-o", os.path.join(directory, "cases")],
            env=os.environ | {"CFLAGS": "-O1"},
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            raise RuntimeError(made.stderr)
        self.library = ctypes.CDLL(os.path.join(directory, "cases", "libcases.so"))
        for number in range(len(cases) + 2):
            handler = jax.ffi.pycapsule(getattr(self.library, f"cases_ffi_{number}"))
            jax.ffi.register_ffi_target(f"kvmill_{number}", handler, platform="cpu")

    def call(self, number: int, like: Any, **options: Any) -> Callable[..., Any]:
        result = jax.ShapeDtypeStruct(like.shape, like.dtype)
        return jax.ffi.ffi_call(f"kvmill_{number}", result, **options)


def same(found: Any, expected: Any) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert found.tobytes() == expected.tobytes(), f"{found}\nexpected:\n{expected}"


def check(handlers: Handlers, number: int, case: Case) -> None:
    expected = jax.jit(case.function)(*case.arguments)
    arguments = [*case.arguments, *case.constants]
    before = [argument.copy() for argument in arguments]
    same(jax.jit(handlers.call(number, expected))(*arguments), expected)
    for argument, copy in zip(arguments, before, strict=True):
        same(argument, copy)


def in_a_program(handlers: Handlers, number: int, case: Case) -> None:
    """Call a handler between ops of XLA, and under jax.vmap."""
    expected = jax.jit(case.function)(*case.arguments)
    call = handlers.call(number, expected, vmap_method="sequential")
    x, i = case.arguments
    same(jax.jit(lambda x, i: call(x * 2, i + 0) + 1)(x, i), case.function(x * 2, i) + 1)
    several = np.stack([x, x[::-1]])
    same(jax.jit(jax.vmap(call, (0, None)))(several, i), jax.vmap(case.function, (0, None))(several, i))


def in_place(handlers: Handlers, number: int, case: Case) -> None:
    x, i, u = case.arguments
    expected = jax.jit(case.function)(x, i, u)
    call = handlers.call(number, expected, input_output_aliases={0: 0})
    donated = jnp.array(x)
    place = donated.unsafe_buffer_pointer()
    result = jax.jit(call, donate_argnums=0)(donated, i, u)
    same(result, expected)
    assert result.unsafe_buffer_pointer() == place, "the result is elsewhere"
    kept = jnp.array(x)
    same(jax.jit(call)(kept, i, u), expected)
    same(kept, x)


def at_a_time(handlers: Handlers, number: int, case: Case) -> None:
    x, i = case.arguments
    call = jax.jit(handlers.call(number, jax.jit(case.function)(x, i)))
    inputs = [np.roll(x, turn, 0) for turn in range(6)]
    with ThreadPoolExecutor(8) as executor:
        results = list(executor.map(lambda turn: call(inputs[turn % 6], i), range(300)))
    for turn, result in enumerate(results):
        same(result, case.function(inputs[turn % 6], i))


def slices(handlers: Handlers, number: int) -> None:
    """Call the handlers of store_and_load with starts that are clamped first, as the guide says."""
    row, cache = ROW_AND_CACHE
    store, load = handlers.call(number, cache), handlers.call(number + 1, cache[:2])
    for start in (0, 2, 4, 5, 9):

        def with_handlers(cache: Any, row: Any, at: Any) -> Any:
            stored = store(cache, jnp.clip(at, 0, 5)[None], row)
            return stored, load(stored, at[None])

        expected = jax.jit(store_and_load)(cache, row, start)
        found = jax.jit(with_handlers)(cache, row, start)
        same(found[0], expected[0])
        same(found[1], expected[1])


def refused(words: str, run: Callable[[], Any]) -> None:
    try:
        jax.block_until_ready(run())
    except jax.errors.JaxRuntimeError as error:
        assert "INVALID_ARGUMENT" in str(error) and words in str(error), str(error)
    else:
        raise AssertionError(f"nothing was refused; expected {words!r}")


def refusals(handlers: Handlers, number: int, case: Case) -> None:
    x, i = case.arguments
    result = jax.jit(case.function)(x, i)
    call = jax.jit(handlers.call(number, result))
    name = f"cases_ffi_{number}: "
    refused(name + "operand has shape [5, 5]; accepted: [6, 5]", lambda: call(x[1:], i))
    refused(name + "operand has shape [6]", lambda: call(x[:, 0], i))
    refused(name + "operand has type f16", lambda: call(x.astype(np.float16), i))
    refused(name + "number of arguments: 3; accepted: 2", lambda: call(x, i, i))
    shorter = handlers.call(number, result[:, 1:])
    refused(name + "result has shape [7, 4]", lambda: jax.jit(shorter)(x, i))
    refused(name + "number of attributes: 1", lambda: handlers.call(number, result)(x, i, axis=1))
    packed = x.astype(ml_dtypes.int4)
    refused("argument 0 has XLA's element type number 21", lambda: call(packed, i))


def write_layout(table: str, header: str) -> None:
    """Write the rows of the table as macro calls."""
    with open(table, encoding="utf-8") as rows, open(header, "w", encoding="utf-8") as macros:
        for row in rows:
            if not row.startswith("#"):
                name, *arguments = row.rstrip("\n").split("\t")
                macros.write(f"{name}({', '.join(arguments)})\n")


def check_header(tap: Tap) -> None:
    """Compare kvmill_ffi.h with the header of the installed jaxlib."""
    here = os.path.dirname(os.path.abspath(__file__))
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    with tempfile.TemporaryDirectory() as directory:
        program = os.path.join(directory, "ffi_abi")
        write_layout(os.path.join(here, "ffi_layout.tsv"), os.path.join(directory, "ffi_layout.h"))
        source = [os.path.join(here, "ffi_abi.c"), "-I", directory, "-I", os.path.join(here, "..", "..", "include")]
        library = ["-L", os.path.dirname(os.environ["KVMILL_LIBRARY"]), "-lkvmill"]
        compiled = subprocess.run(
            [*compiler.split(), "-std=c11", *source, "-isystem", jax.ffi.include_dir(), "-o", program, *library],
            capture_output=True,
            text=True,
            check=False,
        )
        tap.result(compiled.returncode == 0, "the layout of XLA's frames is jaxlib's", compiled.stderr[:600])
        paths = os.environ | {"LD_LIBRARY_PATH": os.path.dirname(os.environ["KVMILL_LIBRARY"])}
        ran = subprocess.run([program], env=paths, capture_output=True, text=True, check=False)
        tap.result(ran.returncode == 0, "and so are the numbers of types", ran.stdout)


def run(tap: Tap, command: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cases = [*gathers(rng), *scatters(rng)]
    check_header(tap)
    with tempfile.TemporaryDirectory() as directory:
        handlers = Handlers(command, directory, cases)
        number_of = {case.name: number for number, case in enumerate(cases)}
        rows_of_floats = number_of["gather of float32 by int32"]
        added = number_of["scatter_add of float32 by int32"]
        for name, test, number in (
            ("threads, of which the first makes the plan", at_a_time, rows_of_floats),
            ("in a program, and mapped", in_a_program, rows_of_floats),
            ("in place of what is donated, else on a copy", in_place, added),
            ("what does not fit is refused", refusals, rows_of_floats),
        ):
            tap.run(f"FFI: {name}", lambda n=number, t=test: t(handlers, n, cases[n]))
        tap.run("FFI: dynamic slices and updates", lambda: slices(handlers, len(cases)))
        for number, case in enumerate(cases):
            tap.run(f"FFI: {case.name}", lambda n=number, c=case: check(handlers, n, c))
