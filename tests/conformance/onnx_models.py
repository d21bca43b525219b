"""ONNX models run by `kvmill run`: the ONNX project's tests of the supported ops, and models with
many random nodes, compared bit for bit with the project's ReferenceEvaluator.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from node_tests import BitExactTest, Run, assert_same_bits, backend_of, run_node_tests
from onnx import helper
from onnx.backend.test import BackendTest
from onnx.reference import ReferenceEvaluator
from onnx_backend import types_of
from tap import Tap

OPS = ("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "TensorScatter", "Attention")
PUBLISHED = r"^test_(gather|gathernd|scatternd|scatter_elements|tensorscatter).*_cpu$"
ATTENTION = r"^test_attention_.*(?<!_expanded)_cpu$"
# The pinned version of onnx.
PUBLISHED_COUNT = 27
ATTENTION_COUNT = 93
OPSET = 24
IR_VERSION = 11
CASES = 24


# ---- Running ----


def carried(array: np.ndarray) -> np.ndarray:
    """Return the array as files hold it: ml_dtypes' types as unsigned integers."""
    is_numpys = array.dtype.isbuiltin == 1 and array.dtype.kind in "biufc"
    return array if is_numpys else array.view(f"u{array.itemsize}")


def run_model(
    command: str,
    options: Sequence[str],
    model: onnx.ModelProto,
    inputs: dict[str, np.ndarray],
    updated: Sequence[str] = (),
) -> list[np.ndarray]:
    """Return all outputs of the model, then the inputs that were updated in place.  Raises the
    command's message."""
    types = [
        (value.name, helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
        for value in model.graph.output
    ] + [(name, inputs[name].dtype) for name in updated]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx.save(model, folder / "model.onnx")
        words = [command, "run", str(folder / "model.onnx"), *options]
        for i, (key, array) in enumerate(inputs.items()):
            np.save(folder / f"in{i}.npy", carried(array))
            words += ["--in", f"{key}={folder}/in{i}.npy"]
        for i, (key, _) in enumerate(types):
            words += ["--out", f"{key}={folder}/out{i}.npy"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [np.load(folder / f"out{i}.npy").view(dtype) for i, (_, dtype) in enumerate(types)]


# ---- The ONNX project's node tests ----


class Variant(NamedTuple):
    name: str
    command: str
    options: tuple[str, ...]


def published(
    tap: Tap, variant: Variant, runner: type[BackendTest], pattern: str, least: int
) -> None:

    def make(model: onnx.ModelProto) -> Run:
        names = [value.name for value in model.graph.input]
        return lambda inputs: tuple(
            run_model(
                variant.command, variant.options, model, dict(zip(names, inputs, strict=True))
            )
        )

    backend = backend_of(OPS, make, single=False)
    count = len(run_node_tests(tap, backend, runner, pattern, variant.name))
    tap.result(
        count >= least,
        f"{count} published node tests of {pattern} passed ({variant.name})",
        "" if count >= least else f"expected {least}",
    )


# ---- Random nodes ----


class Node(NamedTuple):
    op: str
    inputs: list[np.ndarray]
    attributes: dict[str, Any]


def numbers(rng: np.random.Generator, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
    """Draw small numbers, whose sums and products are exact in any type that can hold them."""
    values = rng.integers(0, 4, shape)
    if np.dtype(dtype) != bool and np.issubdtype(dtype, np.signedinteger):
        values = values - 2
    return values.astype(dtype)


def places(rng: np.random.Generator, extent: int, shape: Sequence[int], dtype: Any) -> np.ndarray:
    """Draw indices that count from either end of an axis."""
    return rng.integers(-extent, extent, shape).astype(dtype)


def extents(rng: np.random.Generator, rank: int, most: int = 4) -> list[int]:
    return [int(n) for n in rng.integers(1, most + 1, rank)]


def any_index_type(rng: np.random.Generator) -> Any:
    return rng.choice(np.array([np.int32, np.int64]))


def some_axis(rng: np.random.Generator, rank: int) -> tuple[int, dict[str, int]]:
    """Draw an axis, and how the node gives it: counted from either end, or left out."""
    axis = int(rng.integers(0, rank))
    if axis == 0 and rng.random() < 0.5:
        return axis, {}
    return axis, {"axis": axis - rank * int(rng.integers(0, 2))}


def gather(rng: np.random.Generator, dtype: np.dtype) -> Node:
    shape = extents(rng, int(rng.integers(1, 5)))
    axis, attributes = some_axis(rng, len(shape))
    spaces = extents(rng, int(rng.integers(0, 4)))
    if rng.random() < 0.1:
        spaces = [*spaces, 0]
    indices = places(rng, shape[axis], spaces, any_index_type(rng))
    return Node("Gather", [numbers(rng, dtype, shape), indices], attributes)


def by_element(rng: np.random.Generator) -> tuple[list[int], int, dict[str, int], np.ndarray]:
    """Draw extents of the data, an axis, and indices with any extent along it, and possibly smaller
    extents along other axes."""
    shape = extents(rng, int(rng.integers(1, 5)))
    axis, attributes = some_axis(rng, len(shape))
    narrower = rng.random() < 0.5
    space = [int(rng.integers(1, n + 1)) if narrower else n for n in shape]
    space[axis] = int(rng.integers(0, 6))
    return shape, axis, attributes, places(rng, shape[axis], space, any_index_type(rng))


def gather_elements(rng: np.random.Generator, dtype: np.dtype) -> Node:
    shape, _, attributes, indices = by_element(rng)
    return Node("GatherElements", [numbers(rng, dtype, shape), indices], attributes)


def vectors(rng: np.random.Generator, shape: Sequence[int], space: Sequence[int]) -> np.ndarray:
    """Draw an index vector into data of that shape for each point of the space."""
    return np.stack([places(rng, n, space, np.int64) for n in shape], axis=-1)


def gather_nd(rng: np.random.Generator, dtype: np.dtype) -> Node:
    shape = extents(rng, int(rng.integers(1, 5)))
    batch = int(rng.integers(0, len(shape)))
    components = int(rng.integers(1, len(shape) - batch + 1))
    space = [*shape[:batch], *extents(rng, int(rng.integers(0, 3)))]
    indices = vectors(rng, shape[batch : batch + components], space)
    attributes = {"batch_dims": batch} if batch or rng.random() < 0.5 else {}
    return Node("GatherND", [numbers(rng, dtype, shape), indices], attributes)


def some_reduction(rng: np.random.Generator, dtype: np.dtype) -> dict[str, str]:
    words = ["none", "add", "mul", "max", "min"]
    if np.issubdtype(dtype, np.complexfloating):
        words = words[:3]
    if dtype == bool:
        words = words[:1]
    word = str(rng.choice(np.array(words)))
    return {} if word == "none" and rng.random() < 0.5 else {"reduction": word}


def scatter_elements(rng: np.random.Generator, dtype: np.dtype) -> Node:
    shape, _, attributes, indices = by_element(rng)
    updates = numbers(rng, dtype, indices.shape)
    return Node(
        "ScatterElements",
        [numbers(rng, dtype, shape), indices, updates],
        attributes | some_reduction(rng, dtype),
    )


def scatter_nd(rng: np.random.Generator, dtype: np.dtype) -> Node:
    shape = extents(rng, int(rng.integers(1, 5)))
    components = int(rng.integers(1, len(shape) + 1))
    space = extents(rng, int(rng.integers(0, 3)))
    indices = vectors(rng, shape[:components], space)
    updates = numbers(rng, dtype, [*space, *shape[components:]])
    return Node(
        "ScatterND",
        [numbers(rng, dtype, shape), indices, updates],
        some_reduction(rng, dtype),
    )


GENERATORS: tuple[Callable[[np.random.Generator, np.dtype], Node], ...] = (
    gather,
    gather_elements,
    gather_nd,
    scatter_elements,
    scatter_nd,
)


# ---- Models of them ----


def value_info(name: str, array: np.ndarray, known: bool) -> onnx.ValueInfoProto:
    shape = list(array.shape) if known else [f"{name}_{d}" for d in range(array.ndim)]
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(array.dtype), shape
    )


def evaluated(node: Node) -> np.ndarray:
    """Return the results of the ONNX project's evaluator.

    For GatherElements it supports neither negative axes nor indices that are smaller than the data
    along other axes; for the latter, the leading part of the data gives the same result."""
    arrays, attributes = node.inputs, node.attributes
    if node.op == "GatherElements":
        axis = node.attributes.get("axis", 0) % arrays[0].ndim
        leading = [slice(None) if d == axis else slice(n) for d, n in enumerate(arrays[1].shape)]
        arrays = [arrays[0][tuple(leading)], arrays[1]]
        attributes = {"axis": axis}
    names = [f"in{i}" for i in range(len(arrays))]
    made = helper.make_node(node.op, names, ["out"], **attributes)
    inputs = dict(zip(names, arrays, strict=True))
    result = ReferenceEvaluator(made, opsets={"": OPSET}).run(None, inputs)[0]
    return np.asarray(result, node.inputs[0].dtype)


def model_of(
    nodes: Sequence[Node], rng: np.random.Generator
) -> tuple[onnx.ModelProto, dict[str, np.ndarray], list[np.ndarray]]:
    """Return a model in which some extents are known and some inputs are initialisers, with the
    evaluator's results."""
    made, infos, outputs, constants, wanted = [], [], [], [], []
    inputs: dict[str, np.ndarray] = {}
    for i, node in enumerate(nodes):
        names = [f"in{i}_{k}" for k in range(len(node.inputs))]
        made.append(helper.make_node(node.op, names, [f"out{i}"], f"n{i}", **node.attributes))
        wanted.append(evaluated(node))
        outputs.append(value_info(f"out{i}", wanted[-1], rng.random() < 0.5))
        for name, array in zip(names, node.inputs, strict=True):
            if rng.random() < 0.25:
                constants.append(onnx.numpy_helper.from_array(array, name))
            else:
                inputs[name] = array
                infos.append(value_info(name, array, rng.random() < 0.5))
    graph = helper.make_graph(made, "random", infos, outputs, constants)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    onnx.checker.check_model(model)
    return model, inputs, wanted


def check_random(
    generator: Callable[[np.random.Generator, np.dtype], Node],
    dtypes: Sequence[np.dtype],
    variant: Variant,
    seed: int,
) -> None:
    rng = np.random.default_rng([seed, *generator.__name__.encode()])
    nodes = [generator(rng, dtype) for dtype in dtypes for _ in range(CASES // 8)]
    model, inputs, wanted = model_of(nodes, rng)
    results = run_model(variant.command, variant.options, model, inputs)
    for node, got, want in zip(nodes, results, wanted, strict=True):
        what = f"{node.op} {node.attributes} of {[(str(a.dtype), a.shape) for a in node.inputs]}"
        assert_same_bits(got, want, what)


def a_chain(variant: Variant) -> None:
    """Outputs that are inputs of the next node, a Constant, and an output in the middle."""
    cache = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    rows = np.full((1, 2, 1, 4), -1, np.float32)
    nodes = [
        helper.make_node("TensorScatter", ["cache", "rows", "at"], ["present"]),
        helper.make_node("Constant", [], ["which"], value_ints=[-1, 0]),
        helper.make_node("Gather", ["present", "which"], ["two"], axis=2),
        helper.make_node("ScatterElements", ["two", "e", "u"], ["out"], axis=3, reduction="add"),
    ]
    infos = [
        helper.make_tensor_value_info("cache", onnx.TensorProto.FLOAT, ["B", 2, "M", 4]),
        helper.make_tensor_value_info("rows", onnx.TensorProto.FLOAT, ["B", 2, 1, 4]),
        helper.make_tensor_value_info("at", onnx.TensorProto.INT64, ["B"]),
    ]
    outputs = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["a", "b", "c", "d"])
        for name in ("present", "out")
    ]
    constants = [
        onnx.numpy_helper.from_array(np.array([[[[-1, 0]]]], np.int64), "e"),
        onnx.numpy_helper.from_array(np.array([[[[0.5, 0.25]]]], np.float32), "u"),
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "chain", infos, outputs, constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    inputs = {"cache": cache, "rows": rows, "at": np.array([2], np.int64)}
    results = run_model(variant.command, variant.options, model, inputs)
    for got, want in zip(results, ReferenceEvaluator(model).run(None, inputs), strict=True):
        assert_same_bits(got, want, "chain")


def a_step(variant: Variant) -> None:
    """The standard's decode graph: rows are stored in caches, then attention reads the valid
    rows."""
    rng = np.random.default_rng(24)
    shapes = {
        "past_key": (2, 2, 8, 16),
        "past_value": (2, 2, 8, 16),
        "key": (2, 2, 1, 16),
        "value": (2, 2, 1, 16),
        "query": (2, 4, 1, 16),
    }
    inputs = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    inputs |= {"start": np.array([3, 5]), "valid": np.array([4, 6])}
    attended = ["query", "present_key", "present_value", "", "", "", "valid"]
    nodes = [
        helper.make_node("TensorScatter", ["past_key", "key", "start"], ["present_key"]),
        helper.make_node("TensorScatter", ["past_value", "value", "start"], ["present_value"]),
        helper.make_node("Attention", attended, ["y"], is_causal=1),
    ]
    infos = [value_info(name, array, False) for name, array in inputs.items()]
    outputs = [
        value_info("y", inputs["query"], True),
        value_info("present_key", inputs["past_key"], False),
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "step", infos, outputs),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    y, present = run_model(variant.command, variant.options, model, inputs)
    want, want_present = ReferenceEvaluator(model).run(None, inputs)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
    assert_same_bits(present, want_present, "present_key")


def run(tap: Tap, command: str, seed: int) -> None:
    """All tests of this file."""
    variants = (
        Variant("the command, kernels", command, ("--threads", "2")),
        Variant("the command, portable", command, ("--portable",)),
    )
    # Kernels for these take minutes to compile; onnx_attention.py tests them.
    published(tap, variants[1], BackendTest, ATTENTION, ATTENTION_COUNT)
    dtypes = [dtype for dtype in types_of("Gather") if not dtype.hasobject]
    for variant in variants:
        published(tap, variant, BitExactTest, PUBLISHED, PUBLISHED_COUNT)
        tap.run(f"a step of decoding ({variant.name})", partial(a_step, variant))
        tap.run(f"a chain of nodes ({variant.name})", partial(a_chain, variant))
        for generator in GENERATORS:
            tap.run(
                f"{generator.__name__}: {len(dtypes) * (CASES // 8)} nodes of {len(dtypes)} types "
                f"({variant.name})",
                partial(check_random, generator, dtypes, variant, seed),
            )
