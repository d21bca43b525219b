"""Conformance of kvmill to ONNX TensorScatter-24, with the ONNX project's own tests and evaluator.

Every test runs with packs and with portable kernels, in place and functional, and compares bits.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, NamedTuple

import kvmill
import numpy as np
import onnx
from node_tests import BitExactTest, assert_same_bits, backend_of, run_node_tests
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from tap import Tap

OPSET = 24
# The first IR version that goes with opset 24.
IR_VERSION = 11
PUBLISHED = {"test_tensorscatter", "test_tensorscatter_3d", "test_tensorscatter_circular"}
RANDOM_CASES = 16


# ---- How a node is run ----


class Variant(NamedTuple):
    packs: tuple[kvmill.Pack, ...]
    portable: bool
    in_place: bool

    @property
    def name(self) -> str:
        kernels = "portable" if self.portable else "packs"
        return f"{kernels}, {'in place' if self.in_place else 'functional'}"


def all_variants(packs: tuple[kvmill.Pack, ...]) -> list[Variant]:
    return [
        Variant(packs, portable, in_place)
        for portable in (False, True)
        for in_place in (False, True)
    ]


def run_variant(
    plan: kvmill.TensorScatter,
    in_place: bool,
    past: np.ndarray,
    update: np.ndarray,
    write_indices: np.ndarray | None,
) -> np.ndarray:
    """Run on copies.  Inputs that must not be written have to be unchanged afterwards."""
    old_past, old_update = past.copy(), update.copy()
    present = plan.run(old_past, old_update, write_indices, old_past if in_place else None)
    assert_same_bits(old_update, update, "update afterwards")
    if in_place:
        assert present is old_past, "in place returned another array"
    else:
        assert_same_bits(old_past, past, "past afterwards")
    return present


# ---- The backend ----


class Model:
    """One TensorScatter node, planned from the shapes and types that the model declares."""

    def __init__(self, model: onnx.ModelProto, variant: Variant) -> None:
        node = model.graph.node[0]
        self._inputs = [value.name for value in model.graph.input]
        self._operands = [*node.input, ""][:3]
        self._in_place = variant.in_place
        types = {value.name: value.type.tensor_type for value in model.graph.input}
        shapes = [shape_of(types[name]) if name else None for name in self._operands]
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self._plan = kvmill.TensorScatter(
            *shapes,
            axis=attributes.get("axis", -2),
            mode=attributes.get("mode", b"linear").decode(),
            dtype=TensorProto.DataType.Name(types[self._operands[0]].elem_type).lower(),
            packs=variant.packs,
            portable=variant.portable,
        )

    def run(self, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        values = dict(zip(self._inputs, inputs, strict=True))
        operands = [values.get(name) for name in self._operands]
        return (run_variant(self._plan, self._in_place, *operands),)


def shape_of(tensor_type: onnx.TypeProto.Tensor) -> tuple[int | None, ...]:
    return tuple(
        dim.dim_value if dim.HasField("dim_value") else None for dim in tensor_type.shape.dim
    )


# ---- The ONNX project's node tests ----


def node_tests(tap: Tap, variant: Variant) -> None:
    pattern = r"^test_tensorscatter.*_cpu$"
    backend = backend_of(["TensorScatter"], lambda model: Model(model, variant).run)
    passed = run_node_tests(tap, backend, BitExactTest, pattern, variant.name)
    missing = sorted(PUBLISHED - passed)
    tap.result(
        not missing,
        f"the published node tests ran and passed ({variant.name})",
        f"missing: {missing}" if missing else "",
    )


# ---- Cases ----


@dataclass(frozen=True)
class Case:
    """Attributes and inputs of a node.  An attribute of None has its default."""

    past: np.ndarray
    update: np.ndarray
    write_indices: np.ndarray | None
    axis: int | None = None
    mode: str | None = None
    negative_indices: str | None = None

    @property
    def axis_index(self) -> int:
        return (-2 if self.axis is None else self.axis) % self.past.ndim

    @property
    def is_circular(self) -> bool:
        return self.mode == "circular"

    def __str__(self) -> str:
        return (
            f"{self.past.dtype} past {self.past.shape} update {self.update.shape} "
            f"axis {self.axis} mode {self.mode} write_indices {self.write_indices}"
        )


def plan_of(case: Case, variant: Variant) -> kvmill.TensorScatter:
    attributes = {
        "axis": case.axis,
        "mode": case.mode,
        "negative_indices": case.negative_indices,
    }
    return kvmill.TensorScatter(
        case.past,
        case.update,
        case.write_indices,
        packs=variant.packs,
        portable=variant.portable,
        **{name: value for name, value in attributes.items() if value is not None},
    )


@cache
def types_of(op: str) -> tuple[np.dtype, ...]:
    """Return the element types that the schema of the pinned ONNX lists for T."""
    schema = onnx.defs.get_schema(op, OPSET)
    (constraint,) = (c for c in schema.type_constraints if c.type_param_str == "T")
    names = [
        text.removeprefix("tensor(").removesuffix(")").upper()
        for text in constraint.allowed_type_strs
    ]
    return tuple(
        helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(name)) for name in names
    )


def tensor_type_of(array: np.ndarray) -> int:
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def make_model(
    op: str, inputs: dict[str, np.ndarray], output: np.ndarray, **attributes: Any
) -> onnx.ModelProto:
    values = [
        helper.make_tensor_value_info(name, tensor_type_of(array), array.shape)
        for name, array in inputs.items()
    ]
    present = helper.make_tensor_value_info("present", tensor_type_of(output), output.shape)
    node = helper.make_node(op, list(inputs), ["present"], **attributes)
    model = helper.make_model(
        helper.make_graph([node], "case", values, [present]),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def evaluate(op: str, inputs: dict[str, np.ndarray], output: np.ndarray, **attributes: Any):
    model = make_model(op, inputs, output, **attributes)
    return ReferenceEvaluator(model).run(None, inputs)[0]


def reference(case: Case) -> np.ndarray:
    """Return the result of the ONNX project's evaluator."""
    inputs = {"past": case.past, "update": case.update}
    if case.write_indices is not None:
        inputs["write_indices"] = case.write_indices
    attributes = {"axis": case.axis, "mode": case.mode}
    given = {name: value for name, value in attributes.items() if value is not None}
    return evaluate("TensorScatter", inputs, case.past, **given)


def scatter_elements(case: Case) -> np.ndarray:
    """Return the result of another op: ScatterElements at slots that are computed here with
    unbounded integers."""
    batch, capacity = case.past.shape[0], case.past.shape[case.axis_index]
    rows = case.update.shape[case.axis_index]
    starts = [0] * batch if case.write_indices is None else case.write_indices.tolist()
    wrap = capacity if case.is_circular else sys.maxsize
    slots = np.array([[(start + s) % wrap for s in range(rows)] for start in starts], np.int64)
    shape = [1] * case.past.ndim
    shape[0], shape[case.axis_index] = batch, rows
    indices = np.broadcast_to(slots.reshape(shape), case.update.shape).copy()
    past, update = (bytes_unless_known(array) for array in (case.past, case.update))
    inputs = {"past": past, "indices": indices, "update": update}
    return evaluate("ScatterElements", inputs, past, axis=case.axis_index).view(case.past.dtype)


def bytes_unless_known(array: np.ndarray) -> np.ndarray:
    """Return the bits as an integer type if ScatterElements lacks the type: the newer types of 8
    and 4 bits."""
    return array if array.dtype in types_of("ScatterElements") else array.view(np.uint8)


# ---- Random cases ----


def random_array(rng: np.random.Generator, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
    """Draw any bits that the type has, including NaN payloads, -0 and denormals."""
    count = int(np.prod(shape, dtype=np.int64))
    if dtype.hasobject:
        words = [f"word {i}" for i in rng.integers(0, 10**6, count)]
        return np.array(words, dtype=object).reshape(shape)
    data = rng.integers(0, 256, count * dtype.itemsize, np.uint8)
    if dtype.name in ("int4", "uint4", "float4_e2m1fn"):
        data &= 0x0F
    elif dtype.name == "bool":
        data &= 1
    return data.view(dtype).reshape(shape)


def random_starts(
    rng: np.random.Generator, batch: int, capacity: int, rows: int, circular: bool
) -> np.ndarray | None:
    if rng.random() < 0.15:
        return None
    # The evaluator's int64 must be able to hold the sum of two.
    beyond = [0, capacity, 3 * capacity, 2**62, -2 * capacity, -(2**62)] if circular else [0]
    starts = rng.integers(0, capacity - rows + 1, batch, np.int64)
    if circular:
        starts = rng.integers(0, capacity, batch, np.int64)
    return starts + rng.choice(np.array(beyond, np.int64), batch)


def random_case(rng: np.random.Generator, dtype: np.dtype) -> Case:
    rank = int(rng.integers(2, 6))
    axis = int(rng.integers(1, rank))
    shape = [int(dim) for dim in rng.integers(1, 5, rank)]
    if rng.random() < 0.1:
        shape[int(rng.choice([d for d in range(rank) if d != axis]))] = 0
    capacity = shape[axis] = int(rng.integers(1, 9))
    rows = int(rng.integers(0, capacity + 1))
    mode = rng.choice(np.array([None, "linear", "circular"]))
    default_axis = axis == rank - 2 and rng.random() < 0.5
    return Case(
        past=random_array(rng, dtype, shape),
        update=random_array(rng, dtype, [*shape[:axis], rows, *shape[axis + 1 :]]),
        write_indices=random_starts(rng, shape[0], capacity, rows, mode == "circular"),
        axis=None if default_axis else axis - int(rng.integers(0, 2)) * rank,
        mode=mode,
        negative_indices="floored" if mode == "circular" else None,
    )


def decode_cases(rng: np.random.Generator, dtype: np.dtype) -> Iterator[Case]:
    """Shapes that packs have kernels for: a token for a cache of 8 heads of 128."""
    for shape, axis in ([2, 8, 3, 128], 2), ([2, 3, 1024], 1):
        for mode in "linear", "circular":
            new = [*shape[:axis], 1, *shape[axis + 1 :]]
            yield Case(
                past=random_array(rng, dtype, shape),
                update=random_array(rng, dtype, new),
                write_indices=np.array([0, 2], np.int64),
                axis=axis,
                mode=mode,
            )


class Answer(NamedTuple):
    case: Case
    present: np.ndarray


def answer(case: Case) -> Answer:
    present = reference(case)
    assert_same_bits(scatter_elements(case), present, f"ScatterElements and reference, {case}")
    return Answer(case, present)


def check(case: Case, want: np.ndarray, variant: Variant) -> None:
    plan = plan_of(case, variant)
    present = run_variant(plan, variant.in_place, case.past, case.update, case.write_indices)
    assert_same_bits(present, want, f"{case}\n{plan.describe()}")


def check_all(answers: Sequence[Answer], variant: Variant) -> None:
    assert answers, "no case has an answer: the oracles failed"
    for case, present in answers:
        check(case, present, variant)


def property_tests(tap: Tap, variants: Sequence[Variant], seed: int) -> None:
    for number, dtype in enumerate(types_of("TensorScatter")):
        rng = np.random.default_rng([seed, number])
        cases = [random_case(rng, dtype) for _ in range(RANDOM_CASES)]
        cases += decode_cases(rng, dtype)
        answers: list[Answer] = []
        tap.run(
            f"{dtype}: the evaluator's TensorScatter and ScatterElements agree",
            lambda: answers.extend([answer(case) for case in cases]),
        )
        for variant in variants:
            tap.run(
                f"{dtype}: {len(answers)} cases are as the evaluator has them ({variant.name})",
                partial(check_all, answers, variant),
            )


# ---- Where the evaluator and our decisions part, or did ----


def column_case(starts: Sequence[int], capacity: int, rows: int, mode: str) -> Case:
    """A cache of one float per slot: old rows are -1, and new ones count from 1."""
    batch = len(starts)
    return Case(
        past=np.full((batch, capacity, 1), -1, np.float32),
        update=np.arange(1, batch * rows + 1, dtype=np.float32).reshape(batch, rows, 1),
        write_indices=np.array(starts, np.int64),
        mode=mode,
    )


def erratum(variant: Variant) -> None:
    """More batch entries than slots, circular: only the sequence coordinate wraps.

    The published pseudocode, and the evaluator before onnx PR 8353 (August 2026), reduce every coordinate modulo the
    capacity, so that slot 0 became [5, 2, 3, 4, -1] here.  The pinned onnx has the fix and agrees with kvmill, so the
    random cases above need no exception for it.  If they fail with a pin without the fix, this test says why.
    """
    case = column_case([0] * 5, capacity=4, rows=1, mode="circular")
    want = case.past.copy()
    want[:, 0, 0] = [1, 2, 3, 4, 5]
    assert_same_bits(reference(case), want, "the evaluator of the pinned onnx")
    check(case, want, variant)


def far_starts(variant: Variant) -> None:
    """Circular starts up to INT64_MAX, for which the sums in the evaluator's TensorScatter
    overflow."""
    largest = np.iinfo(np.int64).max
    case = column_case([largest, largest - 1, 3 * 10**18], capacity=5, rows=3, mode="circular")
    check(case, scatter_elements(case), variant)


def refused_cases() -> Iterator[tuple[str, str, Case]]:
    """Return name, status and case.  The evaluator accepts the cases that are marked."""
    linear = column_case([0, 1], capacity=4, rows=2, mode="linear")
    circular = replace(linear, mode="circular")

    def with_starts(case: Case, starts: Sequence[int]) -> Case:
        return replace(case, write_indices=np.array(starts, np.int64))

    yield "linear, a start after the last", "INDEX_RANGE", with_starts(linear, [0, 3])
    yield "linear, start INT64_MAX", "INDEX_RANGE", with_starts(linear, [0, 2**63 - 1])
    # The evaluator counts from the end.
    yield "linear, a negative start", "INDEX_NEGATIVE", with_starts(linear, [0, -2])
    # The evaluator uses the floored modulo; the specification does not say.
    yield "circular, a negative start", "INDEX_NEGATIVE", with_starts(circular, [0, -1])
    yield "too few starts", "SHAPE", with_starts(linear, [0])
    # The evaluator ignores the rest.
    yield "too many starts", "SHAPE", with_starts(linear, [0, 1, 0])
    # The evaluator accepts any integers.
    yield "int32 starts", "DTYPE", replace(linear, write_indices=np.array([0, 1], np.int32))
    yield "axis 0", "ATTRIBUTE", replace(linear, axis=0)
    # The evaluator wraps around.
    yield "axis 4 of 3", "ATTRIBUTE", replace(linear, axis=4)
    yield "an unknown mode", "ATTRIBUTE", replace(linear, mode="Linear")
    yield "more rows than slots", "SHAPE", replace(linear, past=linear.past[:, :1])
    yield "another batch", "SHAPE", replace(linear, update=linear.update[:1])
    # The evaluator converts the indices.
    yield "another type", "DTYPE", replace(linear, update=linear.update.astype(np.float64))


def check_refused(case: Case, status: str, variant: Variant) -> None:
    """Check that the plan or the run refuses the case with this status, and that nothing is
    written."""
    past = case.past.copy()
    present = past if variant.in_place else np.full_like(past, 7)
    before = present.copy()
    try:
        plan_of(case, variant).run(past, case.update, case.write_indices, present)
    except kvmill.KvmillError as error:
        assert error.status_name == f"KVMILL_E_{status}", error
        assert error.message, "no message"
    else:
        raise AssertionError(f"accepted: {case}")
    assert_same_bits(present, before, "present afterwards")


def decision_tests(tap: Tap, variants: Sequence[Variant]) -> None:
    for variant in variants:
        tap.run(
            f"circular with more batch entries than slots ({variant.name})",
            partial(erratum, variant),
        )
        tap.run(f"circular starts up to INT64_MAX ({variant.name})", partial(far_starts, variant))
        for name, status, case in refused_cases():
            tap.run(
                f"refuses {name} ({variant.name})", partial(check_refused, case, status, variant)
            )


def run(tap: Tap, packs: tuple[kvmill.Pack, ...], seed: int) -> None:
    """All tests of this file."""
    tap.comment(f"onnx {onnx.__version__}")
    variants = all_variants(packs)
    for variant in variants:
        node_tests(tap, variant)
    property_tests(tap, variants, seed)
    decision_tests(tap, variants)
