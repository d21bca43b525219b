"""Conformance of kvmill to ONNX Attention-23 to 25, with the ONNX project's own tests and
evaluator.

Every test runs with packs and with portable kernels.  The project's tests `..._expanded`, which
inline the function's body, are left out: they have the same data, but no Attention node.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import kvmill
import numpy as np
import onnx
from kvmill.onnx_attention import ATTENTION_INPUTS
from node_tests import backend_of, run_node_tests
from onnx import TensorProto, helper
from onnx.backend.test import BackendTest
from onnx.backend.test.case.node import collect_testcases
from onnx.reference import ReferenceEvaluator
from tap import Tap

OPSETS = (23, 24, 25)
# The number of node tests in the pinned onnx when it was pinned: 76, and 11 of opset 25.
LEAST_NODE_TESTS = 87
RANDOM_CASES = 60
OUTPUTS = ("Y", "present_key", "present_value", "qk_matmul_output")


# ---- The backend ----


class Model:
    """A model with one Attention node."""

    # Nodes that were computed by kernels of packs.
    specialised = 0

    def __init__(self, model: onnx.ModelProto, packs: tuple[kvmill.Pack, ...], portable: bool):
        self._node = model.graph.node[0]
        self._inputs = [value.name for value in model.graph.input]
        self._outputs = [value.name for value in model.graph.output]
        (self._opset,) = (o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
        self._packs, self._portable = packs, portable

    def run(self, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        values = dict(zip(self._inputs, inputs, strict=True))
        operands = [values[name] if name else None for name in self._node.input]
        wanted = {OUTPUTS[i]: name for i, name in enumerate(self._node.output) if name}
        plan = kvmill.Attention(
            *operands,
            opset=self._opset,
            outputs=wanted,
            packs=self._packs,
            portable=self._portable,
            **{a.name: helper.get_attribute_value(a) for a in self._node.attribute},
        )
        Model.specialised += "(pack " in plan.describe()
        before = [None if array is None else array.copy() for array in operands]
        results = dict(zip(wanted.values(), plan.run(*operands), strict=True))
        for old, new in zip(before, operands, strict=True):
            assert old is None or old.tobytes() == new.tobytes(), "an input was written"
        return tuple(results[name] for name in self._outputs)


# ---- The ONNX project's node tests ----


def published_names() -> set[str]:
    """Return the node tests of the pinned onnx that have one Attention node."""
    return {
        case.name
        for case in collect_testcases("Attention")
        if [node.op_type for node in case.model.graph.node] == ["Attention"]
    }


def node_tests(tap: Tap, packs: tuple[kvmill.Pack, ...], portable: bool) -> None:
    kernels = "portable" if portable else "packs"
    backend = backend_of(["Attention"], lambda model: Model(model, packs, portable).run)
    Model.specialised = 0
    pattern = r"^test_attention_.*(?<!_expanded)_cpu$"
    passed = run_node_tests(tap, backend, BackendTest, pattern, kernels)
    tap.comment(f"{Model.specialised} of them with generated kernels ({kernels})")
    published = published_names()
    missing = sorted(published - passed)
    tap.result(
        len(published) >= LEAST_NODE_TESTS and not missing,
        f"all {len(published)} published node tests ran and passed ({kernels})",
        f"missing: {missing}; at least {LEAST_NODE_TESTS} were there" if missing else "",
    )


# ---- Random cases against the evaluator ----


@dataclass
class Case:
    """A node: inputs in the standard's order, and attributes."""

    opset: int
    inputs: list[np.ndarray | None]
    outputs: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        shapes = [None if a is None else f"{a.dtype} {a.shape}" for a in self.inputs]
        return f"Attention-{self.opset} {shapes} {self.attributes} -> {self.outputs}"


def random_mask(
    rng: np.random.Generator, opset: int, dtype: np.dtype, dims: Sequence[int]
) -> np.ndarray:
    """Draw a mask of any rank, with dims of 1, and from opset 24 on with a last dim that may be too
    short."""
    rank = int(rng.integers(1, 5))
    shape = [dim if rng.random() < 0.6 else 1 for dim in dims[4 - rank :]]
    shape[-1] = dims[-1]
    if opset >= 24 and rng.random() < 0.3:
        shape[-1] = int(rng.integers(1, dims[-1] + 1))
    if rng.random() < 0.5:
        return rng.random(shape) < 0.6
    mask = rng.standard_normal(shape)
    mask[rng.random(shape) < 0.3] = -np.inf
    return mask.astype(dtype)


def random_outputs(
    rng: np.random.Generator, attributes: dict[str, Any], reads_all: bool
) -> tuple[str, ...]:
    """Draw outputs for which the evaluator follows the standard's text; for mode 0 with a soft-cap
    it does not.  Rows that are not valid are not compared here."""
    outputs = ["Y"]
    if reads_all:
        outputs += [name for name in OUTPUTS[1:3] if rng.random() < 0.5]
    modes = [1, 2, 3] if "softcap" in attributes else [0, 2, 3]
    if rng.random() < 0.4:
        outputs.append("qk_matmul_output")
        attributes["qk_matmul_output_mode"] = int(rng.choice(modes if reads_all else [2, 3]))
    return tuple(outputs)


def random_case(rng: np.random.Generator, dtype: np.dtype) -> Case:
    opset = int(rng.choice(OPSETS))
    batch, kv_heads, ratio = (int(n) for n in rng.integers(1, 4, 3))
    queries, keys = int(rng.integers(1, 7)), int(rng.integers(1, 40))
    dim, value_dim = (int(rng.choice([1, 3, 8, 16, 17])) for _ in range(2))
    packed, heads = rng.random() < 0.4, kv_heads * ratio

    def rows(heads: int, rows: int, dim: int, packed: bool) -> np.ndarray:
        shape = (batch, rows, heads * dim) if packed else (batch, heads, rows, dim)
        return rng.standard_normal(shape).astype(dtype)

    inputs: list[np.ndarray | None] = [
        rows(heads, queries, dim, packed),
        rows(kv_heads, keys, dim, packed),
        rows(kv_heads, keys, value_dim, packed),
        *([None] * 4),
    ]
    attributes: dict[str, Any] = {"is_causal": int(rng.integers(0, 2))}
    past = 0
    if rng.random() < 0.5:
        past = int(rng.integers(1, 9))
        inputs[4] = rows(kv_heads, past, dim, False)
        inputs[5] = rows(kv_heads, past, value_dim, False)
    elif opset >= 24 and rng.random() < 0.6:
        inputs[6] = rng.integers(0, keys + 1, batch)
    if rng.random() < 0.6:
        inputs[3] = random_mask(rng, opset, dtype, [batch, heads, queries, past + keys])
    if packed:
        attributes |= {"q_num_heads": heads, "kv_num_heads": kv_heads}
    if rng.random() < 0.3:
        attributes["scale"] = 0.25
    if rng.random() < 0.3:
        attributes["softcap"] = 1.5
    if opset == 25 and rng.random() < 0.6:
        attributes["left_window_size"] = int(rng.integers(-1, 6))
        attributes["right_window_size"] = int(rng.integers(-1, 6))
    outputs = random_outputs(rng, attributes, reads_all=inputs[6] is None)
    return Case(opset, inputs, outputs, attributes)


def with_all_queries(case: Case) -> list[np.ndarray | None]:
    """Expand a mask to all queries, because the evaluator applies causality only to the queries
    that the mask has."""
    inputs, queries = list(case.inputs), case.inputs[0].shape[-2]
    if (mask := inputs[3]) is not None:
        shape = mask.shape if mask.ndim > 1 else (1, *mask.shape)
        inputs[3] = np.broadcast_to(mask, (*shape[:-2], queries, shape[-1])).copy()
    return inputs


def reference(case: Case) -> list[np.ndarray]:
    """Return the results of the ONNX project's evaluator."""
    inputs = with_all_queries(case)
    given = zip(ATTENTION_INPUTS, inputs, strict=True)
    names = [name if a is not None else "" for name, a in given]
    while not names[-1]:
        names.pop()
    results = [name if name in case.outputs else "" for name in OUTPUTS]
    while not results[-1]:
        results.pop()
    node = helper.make_node("Attention", names, results, **case.attributes)

    def value(name: str, array: np.ndarray | None) -> onnx.ValueInfoProto:
        kind = TensorProto.FLOAT if array is None else helper.np_dtype_to_tensor_dtype(array.dtype)
        return helper.make_tensor_value_info(name, kind, None if array is None else array.shape)

    given = {name: a for name, a in zip(names, inputs, strict=False) if a is not None}
    model = helper.make_model(
        helper.make_graph(
            [node],
            "case",
            [value(name, array) for name, array in given.items()],
            [value(name, None) for name in results if name],
        ),
        opset_imports=[helper.make_opsetid("", case.opset)],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return ReferenceEvaluator(model).run(None, given)


# Errors of sums of a few dozen terms of size 1: kvmill rounds once, the evaluator after each step.
TOLERANCES = {"float64": 1e-12, "float32": 2e-5, "float16": 3e-2}


def check(
    case: Case,
    wanted: Sequence[np.ndarray],
    dynamic: Sequence[str],
    packs: Sequence[kvmill.Pack],
    portable: bool,
):
    plan = kvmill.Attention(
        *case.inputs,
        opset=case.opset,
        outputs=case.outputs,
        packs=packs,
        portable=portable,
        dynamic=dynamic,
        **case.attributes,
    )
    tolerance = TOLERANCES[case.inputs[0].dtype.name]
    for name, got, want in zip(case.outputs, plan.run(*case.inputs), wanted, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape, f"{case}: {name}"
        assert np.array_equal(np.isneginf(got), np.isneginf(want)), f"{case}: {name}"
        got, want = (np.where(np.isneginf(a), 0, a.astype(np.float64)) for a in (got, want))
        off = np.max(np.abs(got - want), initial=0)
        assert off <= tolerance, f"{case}: {name} is off by {off}\n{plan.describe()}"


def cases_of(dtype: str, seed: int) -> Iterator[Case]:
    rng = np.random.default_rng([seed, np.dtype(dtype).itemsize])
    for _ in range(RANDOM_CASES):
        yield random_case(rng, np.dtype(dtype))


def property_tests(tap: Tap, packs: tuple[kvmill.Pack, ...], seed: int) -> None:
    def check_all(answers: Sequence[tuple[Case, list[np.ndarray]]], portable: bool) -> None:
        for case, wanted in answers:
            for dynamic in ((), ("batch", "queries", "keys", "past")):
                check(case, wanted, dynamic, packs, portable)

    for dtype in TOLERANCES:
        answers = [(case, reference(case)) for case in cases_of(dtype, seed)]
        for portable in (False, True):
            kernels = "portable" if portable else "packs"
            tap.run(
                f"Attention, {dtype}: {RANDOM_CASES} cases are the evaluator's ({kernels})",
                partial(check_all, answers, portable),
            )


# ---- TensorScatter and Attention, one after the other ----


def composition(inputs: dict[str, np.ndarray], attributes: dict[str, Any]) -> list[np.ndarray]:
    """Return what the evaluator computes with the two ops: Y and the caches."""
    nodes = [
        helper.make_node("TensorScatter", [f"past_{x}", x, "write_indices"], [f"present_{x}"])
        for x in ("K", "V")
    ]
    operands = ["Q", "present_K", "present_V", "", "", "", "nonpad_kv_seqlen"]
    nodes.append(helper.make_node("Attention", operands, ["Y"], **attributes))
    results = ["Y", "present_K", "present_V"]
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "step",
            [
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
                )
                for name, array in inputs.items()
            ],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results],
        ),
        opset_imports=[helper.make_opsetid("", 24)],
    )
    return ReferenceEvaluator(model).run(None, inputs)


def random_step(rng: np.random.Generator) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    batch, kv_heads, ratio = (int(n) for n in rng.integers(1, 4, 3))
    rows, capacity, dim = int(rng.integers(1, 5)), int(rng.integers(8, 40)), 8
    packed = rng.random() < 0.5

    def tensor(heads: int, rows: int) -> np.ndarray:
        shape = (batch, rows, heads * dim) if packed else (batch, heads, rows, dim)
        return rng.standard_normal(shape).astype(np.float32)

    starts = rng.integers(0, capacity - rows + 1, batch)
    attributes: dict[str, Any] = {"is_causal": 1}
    if packed:
        attributes |= {"q_num_heads": kv_heads * ratio, "kv_num_heads": kv_heads}
    inputs = {
        "Q": tensor(kv_heads * ratio, rows),
        "K": tensor(kv_heads, rows),
        "V": tensor(kv_heads, rows),
        "past_K": tensor(kv_heads, capacity),
        "past_V": tensor(kv_heads, capacity),
        "write_indices": starts,
        "nonpad_kv_seqlen": starts + rows,
    }
    return inputs, attributes


def check_steps(packs: tuple[kvmill.Pack, ...], seed: int, portable: bool) -> None:
    rng = np.random.default_rng([seed, 9])
    for _ in range(RANDOM_CASES):
        inputs, attributes = random_step(rng)
        wanted = composition(inputs, attributes)
        names = ("Q", "K", "V", "past_K", "past_V", "write_indices", "nonpad_kv_seqlen")
        arrays = [inputs[name] for name in names]
        for in_place in (False, True):
            dynamic = ("batch", "queries", "capacity") if in_place else ()
            plan = kvmill.TensorScatterAttention(
                *arrays, opset=24, packs=packs, portable=portable, dynamic=dynamic, **attributes
            )
            results = plan.run(*arrays, in_place=in_place)
            got = (results, arrays[3], arrays[4]) if in_place else results
            assert np.max(np.abs(got[0] - wanted[0])) <= TOLERANCES["float32"], plan.describe()
            assert all(np.array_equal(a, b) for a, b in zip(got[1:], wanted[1:], strict=True))


def step_tests(tap: Tap, packs: tuple[kvmill.Pack, ...], seed: int) -> None:
    for portable in (False, True):
        kernels = "portable" if portable else "packs"
        tap.run(
            f"{RANDOM_CASES} steps are the evaluator's TensorScatter and Attention ({kernels})",
            partial(check_steps, packs, seed, portable),
        )


def run(tap: Tap, packs: tuple[kvmill.Pack, ...], seed: int) -> None:
    """All tests of this file."""
    for portable in (False, True):
        node_tests(tap, packs, portable)
    property_tests(tap, packs, seed)
    step_tests(tap, packs, seed)
