"""Gather, GatherND and ScatterElements by the provider, compared with ONNX Runtime alone.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import importlib
import os
import tempfile
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import onnx
from models import claims, make_model, options_of, plain_session, provider_session, run, session_with, value
from onnx import helper
from onnx.backend.test.case import node as node_cases
from tap import Tap, refused

LEAST = {"Gather": 4, "GatherND": 3, "ScatterElements": 6}  # numbers of node tests when onnx was pinned
TYPES = ("float32", "float16", "int8", "int64", "bool", "float64", "uint16", "int32")
CASES = 40


@dataclass
class Case:
    op: str
    data: np.ndarray
    indices: np.ndarray
    updates: np.ndarray | None = None
    attributes: dict[str, int | str] = field(default_factory=dict)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        given = {"data": self.data, "indices": self.indices, "updates": self.updates}
        return {name: array for name, array in given.items() if array is not None}


def kind_of(array: np.ndarray) -> int:
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def windows_model(case: Case, shape: list | None = None) -> onnx.ModelProto:
    """shape: that of the data in the model, if it differs from the array's."""
    given = case.arrays
    node = helper.make_node(case.op, list(given), ["result"], "node", **case.attributes)
    inputs = [value(name, kind_of(array), array.shape) for name, array in given.items()]
    if shape is not None:
        inputs[0] = value("data", kind_of(case.data), shape)
    return make_model([node], inputs, [value("result", kind_of(case.data))])


def strict_session(model: onnx.ModelProto, threads: int = 1, **entries: str):
    """Open a session that fails unless the provider has all nodes."""
    options = options_of(threads)
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    return session_with(model, options, {"portable": "1", **entries})


# ---- The ONNX project's node tests ----


def published(op: str) -> list:
    importlib.import_module(f"{node_cases.__name__}.{op.lower()}")
    return [
        case
        for case in node_cases._NodeTestCases
        if [node.op_type for node in case.model.graph.node] == [op]
    ]


def node_tests(op: str) -> None:
    cases = published(op)
    assert len(cases) >= LEAST[op], f"{len(cases)} tests, once {LEAST[op]}"
    for case in cases:
        words = {a.name: helper.get_attribute_value(a) for a in case.model.graph.node[0].attribute}
        theirs = words.get("reduction", b"none") != b"none"
        session = (provider_session if theirs else strict_session)(case.model)
        names = [graph_input.name for graph_input in session.get_inputs()]
        for inputs, outputs in case.data_sets:
            got = session.run(None, dict(zip(names, inputs, strict=True)))
            assert all(map(np.array_equal, got, outputs)), case.name


# ---- Random nodes ----


def any_of(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return rng.integers(-100, 100, shape).astype(dtype)


def signed(rng: np.random.Generator, shape: tuple[int, ...], extent: int, kind: str) -> np.ndarray:
    return rng.integers(-extent, extent, shape).astype(kind)


def random_gather(rng: np.random.Generator, dtype: str, kind: str) -> Case:
    shape = tuple(map(int, rng.integers(1, 7, rng.integers(1, 5))))
    axis = int(rng.integers(-len(shape), len(shape)))
    many = tuple(map(int, rng.integers(0, 5, rng.integers(0, 4))))
    indices = signed(rng, many, shape[axis], kind)
    return Case("Gather", any_of(rng, shape, dtype), indices, None, {"axis": axis})


def random_gather_nd(rng: np.random.Generator, dtype: str, kind: str) -> Case:
    del kind  # only int64
    shape = tuple(map(int, rng.integers(1, 7, rng.integers(1, 6))))
    batch = int(rng.integers(0, len(shape)))
    count = int(rng.integers(1, len(shape) - batch + 1))
    many = (*shape[:batch], *map(int, rng.integers(0, 4, rng.integers(0, 3))))
    parts = [signed(rng, many, shape[batch + c], "int64") for c in range(count)]
    indices = np.stack(parts, -1)
    return Case("GatherND", any_of(rng, shape, dtype), indices, None, {"batch_dims": batch})


def random_scatter(rng: np.random.Generator, dtype: str, kind: str) -> Case:
    """Draw a scatter in which no element is updated twice, because their order is not defined.
    Indices cover part of the data."""
    shape = tuple(map(int, rng.integers(1, 7, rng.integers(1, 5))))
    axis = int(rng.integers(-len(shape), len(shape)))
    many = tuple(int(rng.integers(0, n + 1)) for n in shape)
    orders = np.argsort(rng.random((*many[:axis], shape[axis], *many[axis:][1:])), axis)
    indices = np.take(orders, range(many[axis]), axis).astype(kind)
    indices -= (rng.random(many) < 0.5).astype(kind) * shape[axis]
    data, updates = any_of(rng, shape, dtype), any_of(rng, many, dtype)
    return Case("ScatterElements", data, indices, updates, {"axis": axis})


RANDOM = {"Gather": random_gather, "GatherND": random_gather_nd, "ScatterElements": random_scatter}


def check(case: Case, **entries: str) -> None:
    model = windows_model(case)
    want = run(plain_session(model), case.arrays)["result"]
    before = {name: array.copy() for name, array in case.arrays.items()}
    got = run(strict_session(model, **entries), case.arrays)["result"]
    assert got.dtype == want.dtype and got.shape == want.shape, f"{case}: {got.shape}"
    assert got.tobytes() == want.tobytes(), case
    for name, array in case.arrays.items():
        assert np.array_equal(array, before[name]), f"{case}: {name} was written"


def random_tests(seed: int, op: str) -> None:
    rng = np.random.default_rng([seed, len(op)])
    for number in range(CASES):
        kind = "int32" if number % 3 == 0 else "int64"
        check(RANDOM[op](rng, TYPES[number % len(TYPES)], kind))


# ---- A cache ----


def half_of_rows(op: str) -> Case:
    """Gather half of a cache's rows, with exactly the number of bytes from which on the provider
    takes the node."""
    rng = np.random.default_rng(3)
    data = rng.standard_normal((1, 4, 512, 128)).astype("float32")
    rows = np.sort(rng.permutation(512)[:256])
    if op == "Gather":
        return Case(op, data, rows, None, {"axis": 2})
    return Case(op, data, np.tile(rows[:, None], (1, 4, 1, 1)), None, {"batch_dims": 2})


def new_rows(rows: int = 32) -> Case:
    """Scatter 1024 updates for a row."""
    rng = np.random.default_rng(4)
    data = rng.standard_normal((2, 4, 512, 128)).astype("float32")
    slots = np.broadcast_to(np.arange(-7, rows - 7)[:, None], (2, 4, rows, 128)).astype("int64")
    updates = rng.standard_normal(slots.shape).astype("float32")
    return Case("ScatterElements", data, np.ascontiguousarray(slots), updates, {"axis": 2})


def taken() -> list[Case]:
    return [half_of_rows("Gather"), half_of_rows("GatherND"), new_rows(1), new_rows()]


def by_threads() -> None:
    for case in taken():
        model = windows_model(case)
        want = run(plain_session(model), case.arrays)["result"]
        for threads in (1, 2, 3):
            got = run(strict_session(model, threads), case.arrays)["result"]
            assert got.tobytes() == want.tobytes(), f"{case.op}, {threads} threads"


def in_place() -> None:
    """Data and result are one buffer: rows that no index names keep their bytes and are not
    written."""
    case = new_rows()
    model = windows_model(case)
    want = run(plain_session(model), case.arrays)["result"]
    session = strict_session(model)
    binding = session.io_binding()
    for name, array in case.arrays.items():
        binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    data = case.data
    binding.bind_output("result", "cpu", 0, data.dtype, data.shape, data.ctypes.data)
    session.run_with_iobinding(binding)
    assert data.tobytes() == want.tobytes()


def made() -> None:
    """A session generates the kernels that the importer finds, and the provider's plans find
    them."""
    with tempfile.TemporaryDirectory() as folder:
        for case in taken():
            lines = claims(windows_model(case), make_kernels=folder)
            wanted = ["makes kernels for 1 nodes", f'takes node "node" ({case.op}) as {case.op}']
            assert lines == wanted, lines
            options = options_of()
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
            session = session_with(windows_model(case), options, {"make_kernels": folder})
            want = run(plain_session(windows_model(case)), case.arrays)["result"]
            assert run(session, case.arrays)["result"].tobytes() == want.tobytes()


# ---- Refusals ----


def wrong_index(case: Case, at: tuple[int, ...], index: int, words: str) -> None:
    session = strict_session(windows_model(case))
    good, before = case.indices.copy(), case.data.copy()
    bad = replace(case, indices=good.copy())
    bad.indices[at] = index
    refused(f"kvmill: {words}", partial(run, session, bad.arrays), Exception)
    assert np.array_equal(case.data, before), "the data was written"
    want = run(plain_session(windows_model(case)), case.arrays)["result"]
    assert np.array_equal(run(session, case.arrays)["result"], want)


def refusal_tests(tap: Tap) -> None:
    data = np.arange(60, dtype="float32").reshape(3, 4, 5)
    gather = Case("Gather", data, np.array([[0, 1], [2, -3]], "int32"), None, {"axis": 0})
    vectors = Case("GatherND", data, np.array([[0, 1], [2, -4]]), None, {})
    zeros = np.zeros((3, 2, 5), "int64")
    scatter = Case("ScatterElements", data, zeros + [[0], [1]], zeros.astype("f4"), {"axis": 1})
    for what, case, at, index, words in (
        ("after the last", gather, (0, 1), 3, "indices[1] is 3; accepted: -3 to 2"),
        ("before the first", gather, (1, 0), -4, "indices[2] is -4; accepted: -3 to 2"),
        ("of a vector", vectors, (1, 1), 4, "indices[3] is 4; accepted: -4 to 3"),
        ("of 2^63 - 1", vectors, (0, 0), 2**63 - 1, "indices[0] is 9223372036854775807; accepted: -3"),
        ("of -2^63", scatter, (2, 1, 4), -(2**63), "indices[29] is -9223372036854775808; accepted: -4"),
    ):
        tap.run(f"{case.op}: refused in a run: an index {what}", partial(wrong_index, case, at, index, words))


# ---- What is taken ----


def claim_tests(tap: Tap) -> None:
    large, small = half_of_rows("Gather"), half_of_rows("Gather")
    small.indices = small.indices[1:]
    rows = Case("Gather", np.zeros((32, 1 << 16), "f4"), np.arange(31), None, {"axis": 0})
    few = new_rows(1)
    few.indices, few.updates = few.indices[..., :127], few.updates[..., :127]
    adds = replace(new_rows(), attributes={"axis": 2, "reduction": "add"})
    made_data = windows_model(new_rows())
    made_data.graph.node[0].input[0] = "copy"
    made_data.graph.node.insert(0, helper.make_node("Neg", ["data"], ["copy"]))
    narrow = Case("Gather", np.zeros((1, 1), "i1"), np.zeros(1, "i4"), None, {"axis": 0})
    wide_result = Case("GatherND", np.zeros([1] * 8, "f4"), np.zeros([1] * 8, "i8"), None, {})
    leaves = 'left to ONNX Runtime: node "node" ({}): {}'
    for what, model, wanted in (
        ("no kernels", windows_model(large), ("Gather", "no pack has fast kernels of its shape")),
        ("a small result", windows_model(small), ("Gather", "the result has 522240 bytes; accepted: 524288")),
        ("rows side by side", windows_model(rows), ("Gather", "the result has 8126464 bytes; accepted: 8388608")),
        ("few updates", windows_model(few), ("ScatterElements", "there are 1016 updates; accepted: 1024")),
        ("sums", windows_model(adds), ("ScatterElements", "reduction is add; accepted: none")),
        ("open dims", windows_model(large, ["batch", 4, 512, 128]),
         ("Gather", "input 0 has dims that the model does not state")),
        ("int32 for more", windows_model(narrow, [1 << 32, 1]),
         ("Gather", "data has 4294967296 elements along the axis; accepted with int32: at most")),
        ("rank 14", windows_model(wide_result), ("GatherND", "the result has rank 14; accepted: at most 8")),
        ("data that a node makes", made_data, ("ScatterElements", "input 0 is made by a node")),
    ):  # fmt: skip
        def check_one(model=model, wanted=wanted) -> None:
            lines = claims(model)
            assert len(lines) == 1 and lines[0].startswith(leaves.format(*wanted)), lines

        tap.run(f"provider: left to the CPU provider: {what}", check_one)


def run_all(tap: Tap, *, quick: bool = False) -> None:
    seed = int(os.environ.get("KVMILL_SEED", "24"))
    for op in LEAST:
        tap.run(f"{op}: the published node tests", partial(node_tests, op))
        tap.run(f"{op}: {CASES} random nodes", partial(random_tests, seed, op))
    refusal_tests(tap)
    tap.run("ScatterElements: in place", in_place)
    claim_tests(tap)
    if quick:
        return
    tap.run("gathers and scatters: by any number of threads", by_threads)
    tap.run("gathers and scatters: kernels are made, and taken", made)
