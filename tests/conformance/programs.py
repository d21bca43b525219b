"""Programs that JAX prints, of the kinds that users have: decoders, caches, everything around them.

    programs.py FOLDER

writes each of them in several forms, and expected.json: for each program the gathers and scatters
that a walk over MLIR's own objects finds in it, slices and updates among them.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax
import jax.numpy as jnp
import numpy as np
from decoders import (
    BATCH,
    CAPACITY,
    EMBEDDING,
    HEADS,
    PROGRAMS,
    SIZE,
    TOKENS,
    WORDS,
    caches_of,
    lowered,
    program,
    shape,
    store_by_scatter,
)
from jax import lax
from jax.experimental import pallas
from jax.interpreters import mlir
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib.mlir import ir

# ---- Several devices ----


def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()[:2]), ("x",))


def along(*axes: Any) -> NamedSharding:
    return NamedSharding(mesh(), PartitionSpec(*axes))


@program
def sharded() -> Any:
    def step(embedding: Any, cache: Any, token: Any, at: Any) -> Any:
        x = lax.with_sharding_constraint(embedding[token], along("x"))
        return store_by_scatter(cache, x.reshape(BATCH, HEADS, SIZE), at)

    places = along(), along("x"), along("x"), along("x")
    cache = caches_of()[0]
    return lowered(
        step, EMBEDDING, cache, TOKENS, TOKENS, in_shardings=places, out_shardings=along("x")
    )


@program
def shard_map() -> Any:
    def step(cache: Any, row: Any, at: Any) -> Any:
        total = lax.psum(jnp.sum(row), "x")
        gathered = lax.all_gather(row, "x")
        return cache.at[jnp.arange(BATCH // 2), at].set(row + total), gathered

    spec = PartitionSpec("x")
    mapped = jax.shard_map(step, mesh=mesh(), in_specs=(spec,) * 3, out_specs=(spec, spec))
    return lowered(mapped, caches_of()[0], shape(BATCH, HEADS, SIZE), TOKENS)


@program
def pmapped() -> Any:
    def step(cache: Any, row: Any, at: Any) -> Any:
        return lax.dynamic_update_slice(cache, row, (at, 0)), lax.pmean(row, "d")

    many = jax.pmap(step, axis_name="d")
    return many.lower(shape(2, CAPACITY, SIZE), shape(2, 1, SIZE), TOKENS)


# ---- Shapes that are not known ----


@program
def symbolic_batch() -> Any:
    batch, rows = jax.export.symbolic_shape("b, r")
    function = jax.jit(lambda pages, i, at: (pages[i], pages.at[i].set(pages[at])))
    return jax.export.export(function)(
        shape(rows, 4, HEADS, SIZE, dtype=jnp.bfloat16),
        shape(batch, dtype=jnp.int32),
        shape(batch, dtype=jnp.int32),
    )


@program
def symbolic_slices() -> Any:
    (rows,) = jax.export.symbolic_shape("r", constraints=["r >= 2"])

    def function(cache: Any, row: Any, at: Any) -> Any:
        cache = lax.dynamic_update_slice(cache, row, (at, 0))
        return cache, lax.dynamic_slice(cache, (at, 0), (2, SIZE))

    scalar = shape(dtype=jnp.int32)
    return jax.export.export(jax.jit(function))(shape(rows, SIZE), shape(1, SIZE), scalar)


# ---- Everything else that programs have ----

TABLE = shape(6, 4)
INDICES = shape(3, dtype=jnp.int32)


@program
def conditions() -> Any:
    def function(table: Any, i: Any) -> Any:
        first = lax.cond(i[0] > 1, lambda: table[i], lambda: table.at[i].add(1.0)[:3])
        return (
            lax.switch(i[1], [lambda t: t[i], lambda t: t[i + 1], lambda t: -t[i]], table) + first
        )

    return lowered(function, TABLE, INDICES)


@program
def random_numbers() -> Any:
    def function(key: Any, table: Any) -> Any:
        first, second = jax.random.split(key)
        rows = jax.random.choice(first, table, (3,), axis=0)
        picked = jax.random.categorical(second, table)
        return rows, picked, jax.random.permutation(first, 6), jax.random.bits(second, (4,))

    return lowered(function, jax.eval_shape(lambda: jax.random.key(0)), TABLE)


@program
def generated_bits() -> Any:
    def function(key: Any, table: Any) -> Any:
        key, bits = lax.rng_bit_generator(key, (3,))
        return key, table[bits % 6]

    return lowered(function, shape(4, dtype=jnp.uint32), TABLE)


@program
def convolution() -> Any:
    def function(image: Any, kernel: Any, i: Any) -> Any:
        image = lax.conv_general_dilated(image, kernel, (1, 1), "SAME", feature_group_count=2)
        image = lax.reduce_window(image, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 1, 1), "VALID")
        return lax.pad(image, 0.0, ((0, 0, 0), (0, 0, 0), (1, 0, 1), (0, -1, 0)))[i]

    return lowered(function, shape(2, 4, 6, 6), shape(4, 2, 3, 3), INDICES)


@program
def pooling_gradient() -> Any:
    def loss(image: Any) -> Any:
        most = lax.reduce_window(image, -jnp.inf, lax.max, (1, 2, 2), (1, 2, 2), "VALID")
        return jnp.sum(most[jnp.array([1, 0])])

    return lowered(jax.grad(loss), shape(2, 6, 6))


@program
def sorting() -> Any:
    def function(table: Any, i: Any) -> Any:
        values, places = lax.top_k(table, 2)
        order = jnp.lexsort((table[:, 0], table[:, 1]))
        low = jnp.searchsorted(table[0], values[0])
        return table[order], jnp.take_along_axis(table, places, 1), low, lax.approx_max_k(table, 2)

    return lowered(function, TABLE, INDICES)


@program
def sampling() -> Any:
    def function(key: Any, logits: Any) -> Any:
        order = jnp.argsort(-logits, axis=-1)
        sums = jnp.cumsum(jax.nn.softmax(jnp.take_along_axis(logits, order, -1)), -1)
        kept = jnp.where(sums < 0.9, logits, -jnp.inf)
        pick = jax.random.categorical(key, kept)
        return jnp.take_along_axis(order, pick[:, None], -1)

    return lowered(function, jax.eval_shape(lambda: jax.random.key(0)), shape(BATCH, WORDS))


@program
def bits_and_types() -> Any:
    def function(table: Any, i: Any) -> Any:
        words = lax.bitcast_convert_type(table[i], jnp.uint32)
        near = lax.reduce_precision(table, 5, 2)[i]
        small = table.astype(jnp.float8_e4m3fn)[i].astype(jnp.float32)
        nibbles = table.astype(jnp.int4)[i].astype(jnp.int32)
        return lax.optimization_barrier((words, near, small, nibbles)), lax.rev(table, (0,))

    return lowered(function, TABLE, INDICES)


@program
def complex_numbers() -> Any:
    def function(table: Any, i: Any) -> Any:
        waves = jnp.fft.fft(table)[i]
        return jnp.fft.irfft(waves), jnp.abs(waves), lax.complex(table, table)[i] * 1j

    return lowered(function, TABLE, INDICES)


@program
def linear_algebra() -> Any:
    def function(square: Any, i: Any) -> Any:
        factor = jnp.linalg.cholesky(square @ square.T)
        values, vectors = jnp.linalg.eigh(square)
        solved = jnp.linalg.solve(square, square[i])
        return factor, values[i], vectors, jnp.linalg.qr(square), jnp.linalg.svd(square), solved

    return lowered(function, shape(3, 3), INDICES)


@program
def scans() -> Any:
    def function(table: Any, i: Any) -> Any:
        sums = lax.associative_scan(jnp.add, table)
        return (
            sums[i],
            jnp.cumprod(table, 1),
            lax.cummax(table),
            jax.ops.segment_sum(table[i], i, 4),
        )

    return lowered(function, TABLE, INDICES)


@program
def scatters() -> Any:
    def function(table: Any, i: Any) -> Any:
        rows = table[i]
        out = [table.at[i].add(rows), table.at[i].multiply(rows), table.at[i].min(rows)]
        out += [table.at[i].max(rows, mode="clip"), table.at[i].set(rows, unique_indices=True)]
        out += [table.at[i, 1:3].apply(jnp.sin), jax.vmap(lambda t, k: t.at[k].set(0.0))(rows, i)]
        return out

    return lowered(function, TABLE, INDICES)


@program
def gathers() -> Any:
    def function(table: Any, i: Any) -> Any:
        rows = [table[i], table[:, i], table[i, i], table[i[0]], jnp.take(table, i, axis=1)]
        rows += [table.at[i].get(mode="fill", fill_value=-1.0), jnp.take(table, i, mode="wrap")]
        return rows, lax.dynamic_index_in_dim(table, i[2], 1), table[np.array([True, False] * 3)]

    return lowered(function, TABLE, INDICES)


@program
def masks_in_the_program() -> Any:
    mask = np.arange(300) % 3 == 0
    numbers = np.arange(300, dtype=np.float32)

    def function(x: Any, i: Any) -> Any:
        return jnp.where(mask, x, numbers)[i], x[np.array([2, 5, 7])]

    return lowered(function, shape(300), INDICES)


@program
def callbacks() -> Any:
    def function(table: Any, i: Any) -> Any:
        jax.debug.print("rows {i}", i=i)
        like = jax.ShapeDtypeStruct((3, 4), jnp.float32)
        return jax.pure_callback(lambda x: x, like, table[i])

    return lowered(function, TABLE, INDICES)


@program
def ffi_calls() -> Any:
    def function(table: Any, i: Any) -> Any:
        call = jax.ffi.ffi_call("a_handler", jax.ShapeDtypeStruct((3, 4), jnp.float32))
        return call(table[i], size=np.int64(3), name="word", flags=np.array([1, 2], np.int32))

    return lowered(function, TABLE, INDICES)


@program
def pallas_kernel() -> Any:
    def copy(source: Any, target: Any) -> None:
        target[...] = source[...] + 1

    def function(table: Any, i: Any) -> Any:
        like = jax.ShapeDtypeStruct((6, 4), jnp.float32)
        return pallas.pallas_call(copy, out_shape=like, interpret=True)(table)[i]

    return lowered(function, TABLE, INDICES)


@program
def custom_rules() -> Any:
    @jax.custom_vjp
    def lookup(table: Any, i: Any) -> Any:
        return table[i]

    def forward(table: Any, i: Any) -> Any:
        return lookup(table, i), (i, table.shape)

    def backward(saved: Any, rows: Any) -> Any:
        return jnp.zeros(TABLE.shape).at[saved[0]].add(rows), None

    lookup.defvjp(forward, backward)
    return lowered(jax.grad(lambda t, i: jnp.sum(lookup(t, i) ** 2)), TABLE, INDICES)


@program
def special_functions() -> Any:
    def function(table: Any, i: Any) -> Any:
        out = [lax.erf_inv(table), lax.lgamma(table), lax.digamma(table), jnp.sinh(table)]
        out += [jax.scipy.special.bessel_jn(table[0], v=2), lax.nextafter(table, -table)]
        out += [lax.igamma(table, table), lax.population_count(i), lax.clz(i), jnp.tan(table)]
        return [x[i] for x in out[:4]] + out[4:]

    return lowered(function, TABLE, INDICES)


@program
def named_pieces() -> Any:
    @partial(jax.jit, inline=False)
    def inner(table: Any, i: Any) -> Any:
        with jax.named_scope('a "quoted" {name} // here'):
            return table[i]

    return lowered(lambda t, i: inner(t, i) + inner(t, i + 1) + inner(-t, i), TABLE, INDICES)


# ---- What is in them ----


def operations(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        for block in region:
            for inner in block.operations:
                yield inner.operation
                yield from operations(inner.operation)


def starts(whole: Any, window: Any, start: Any) -> str:
    """Return the type of an index vector with the starts along axes that the window can leave."""
    moving = sum(a != b or a < 0 for a, b in zip(whole.shape, window.shape))
    return f"tensor<{moving or 1}x{start.element_type}>"


def found(operation: Any) -> Iterator[str]:
    for op in operations(operation):
        types = [ir.ShapedType(value.type) for value in op.operands] if wanted(op) else []
        if op.name in ("stablehlo.gather", "stablehlo.dynamic_gather"):
            yield f"gather {types[0]} {types[1]}"
        if op.name == "stablehlo.scatter":
            yield f"scatter {types[0]} {types[1]} {types[2]}"
        if op.name == "stablehlo.dynamic_slice":
            window = ir.ShapedType(op.results[0].type)
            yield f"gather {types[0]} {starts(types[0], window, types[1])}"
        if op.name == "stablehlo.dynamic_update_slice":
            yield f"scatter {types[0]} {starts(types[0], types[1], types[2])} {types[1]}"


def wanted(op: Any) -> bool:
    names = ("gather", "dynamic_gather", "scatter", "dynamic_slice", "dynamic_update_slice")
    return op.name in [f"stablehlo.{name}" for name in names]


# ---- Files ----

WITH_BYTECODE = ("shard_map",)


def write(folder: Path, name: str, module: Any) -> None:
    forms = {
        "text": {},
        "places": {"enable_debug_info": True},
        "generic": {"print_generic_op_form": True},
        "generic_places": {"print_generic_op_form": True, "enable_debug_info": True},
    }
    for form, options in forms.items():
        text = module.operation.get_asm(**options)
        (folder / f"{name}.{form}.mlir").write_text(text, encoding="utf8")
    if name in WITH_BYTECODE:
        with open(folder / f"{name}.plain.mlirbc", "wb") as file:
            module.operation.write_bytecode(file)


def texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield names and texts of all programs."""
    for name, make in PROGRAMS.items():
        made = make()
        if isinstance(made, jax.export.Exported):
            (folder / f"{name}.portable.mlirbc").write_bytes(made.mlir_module_serialized)
            yield name, made.mlir_module()
        else:
            yield name, made.compiler_ir("stablehlo").operation.get_asm()
    yield "rare_forms", Path(__file__).with_name("rare_forms.mlir").read_text(encoding="utf8")


def write_all(folder: Path) -> None:
    expected = {}
    for name, text in texts(folder):
        with mlir.make_ir_context():
            module = ir.Module.parse(text)
            write(folder, name, module)
            expected[name] = sorted(found(module.operation))
    (folder / "expected.json").write_text(json.dumps(expected), encoding="utf8")


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
