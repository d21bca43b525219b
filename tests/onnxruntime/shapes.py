"""Every shape that a model's open dims allow, run by the provider and by the CPU provider alone.

A node is taken before its shapes are known, so a call that the provider refuses has no other way.  For each model, open
dims take small numbers, 0 and 1 among them, and lengths and indices all that may matter.  What the CPU provider runs,
the provider must run, with the same results.  What the CPU provider refuses, the provider refuses, too, or the results
must be those of calls that the CPU provider does run, or be empty.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import onnx
from models import options_of, session_with
from onnx import helper
from onnxruntime import InferenceSession
from tap import Tap

Dims = dict[str, int]
Arrays = dict[str, np.ndarray]
FATAL = 4  # severity
RESULTS = ("same", "more", "empty", "refused")


@dataclass
class Shapes:
    """A model, and the numbers that its open dims take; 0, 1 and 3 if there are none.

    integers: yields the contents of integer inputs
    known: the part of an output that the op defines
    others: yields calls that the CPU provider runs, instead of one that it refuses, and the part of
        the outputs that is theirs
    crashes: whether the CPU provider ends the process if the batch is empty; it is then legal where
        a batch of one is
    judge: returns what is right where the CPU provider departs from the standard
    plain: the model for the CPU provider, if it has not the op, and its inputs"""

    model: onnx.ModelProto
    integers: Callable[[Dims], Iterator[Arrays]] = lambda _: iter([{}])
    numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    known: Callable[[str, np.ndarray, Arrays], list[np.ndarray]] = lambda _, array, __: [array]
    others: Callable[[Arrays], list[tuple[Arrays, Callable]]] = lambda _: []
    crashes: bool = False
    judge: Callable[[Arrays], Arrays] | None = None
    plain: onnx.ModelProto | None = None
    encode: Callable[[Arrays], Arrays] = lambda arrays: arrays
    tolerance: float = 2e-5
    compared: tuple[str, ...] = ()
    entries: Mapping[str, str] = field(default_factory=dict)


# ---- Calls ----


def all_dims(shapes: Shapes) -> Iterator[Dims]:
    inputs = (shapes.plain or shapes.model).graph.input
    names = {d.dim_param for i in inputs for d in i.type.tensor_type.shape.dim if d.dim_param}
    ordered = sorted(names)
    every = [shapes.numbers.get(name, (0, 1, 3)) for name in ordered]
    all_numbers = (dict(zip(ordered, numbers, strict=True)) for numbers in itertools.product(*every))
    yield from sorted(all_numbers, key=lambda dims: dims.get("batch") == 0)


def drawn(rng: np.random.Generator, dtype: np.dtype, shape: list[int]) -> np.ndarray:
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)


def all_calls(shapes: Shapes) -> Iterator[tuple[Dims, Arrays]]:
    """Yield calls, those of an empty batch last.  Integers of more than a byte are lengths and
    indices."""
    for dims in all_dims(shapes):
        rng, arrays = np.random.default_rng(7), {}
        for graph_input in (shapes.plain or shapes.model).graph.input:
            tensor = graph_input.type.tensor_type
            shape = [dims[d.dim_param] if d.dim_param else d.dim_value for d in tensor.shape.dim]
            dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            if dtype.kind in "fb" or dtype.itemsize == 1:
                arrays[graph_input.name] = drawn(rng, dtype, shape)
        for integers in shapes.integers(dims):
            yield dims, arrays | integers


def outcome(session: InferenceSession, arrays: Arrays) -> Arrays | str:
    """Return a run's outputs, or the message of a refusal."""
    names = [output.name for output in session.get_outputs()]
    inputs = {i.name: arrays[i.name] for i in session.get_inputs()}
    try:
        return dict(zip(names, session.run(names, inputs), strict=True))
    except Exception as error:
        return str(error).split("Status Message: ")[-1].splitlines()[0]


def sessions_of(shapes: Shapes) -> tuple[InferenceSession, InferenceSession]:
    """Return sessions of the provider and of the CPU provider.  Refusals are expected, so neither
    logs them."""
    ours, theirs = options_of(), options_of()
    ours.log_severity_level = theirs.log_severity_level = FATAL
    if shapes.crashes:  # a node that is left would end this process
        ours.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    plain = (shapes.plain or shapes.model).SerializeToString()
    return (
        session_with(shapes.model, ours, {"portable": "1", **shapes.entries}),
        InferenceSession(plain, theirs, providers=["CPUExecutionProvider"]),
    )


# ---- Comparing ----


def difference(shapes: Shapes, got: Arrays, want: Arrays, arrays: Arrays, part: Callable = lambda a, _: a) -> str:
    """Return in words how results differ; "" if they do not.  part: of `got`."""
    for name in shapes.compared or want:
        have, right = part(got[name], name), want[name]
        if have.dtype != right.dtype:
            return f"{name} is {have.dtype}, not {right.dtype}"
        pairs = zip(shapes.known(name, have, arrays), shapes.known(name, right, arrays), strict=True)
        for one, other in pairs:
            if one.shape != other.shape:
                return f"{name} has shape {have.shape}, not {right.shape}"
            codes = one.dtype.kind in "iu"
            off = np.abs(one.astype(np.float64) - other.astype(np.float64)).max(initial=0)
            largest = np.abs(other.astype(np.float64)).max(initial=1)
            if not off <= (1 if codes else shapes.tolerance * largest):
                return f"{name} is off by {off}"
    return ""


def check_alike(shapes: Shapes, plain: InferenceSession, got: Arrays, arrays: Arrays) -> str:
    """Return "more" if results are those of calls that the CPU provider runs, or of the standard,
    "empty" if there are none, else what is wrong."""
    others = shapes.others(arrays)
    if shapes.judge is not None and all(array.size for array in arrays.values()):
        return difference(shapes, got, shapes.judge(arrays), arrays) or "more"
    if not others:
        filled = [name for name, array in got.items() if not np.isfinite(array.astype(np.float64)).all()]
        return f"{filled} are not finite" if filled else "empty"
    for call, part in others:
        want = outcome(plain, call)
        if isinstance(want, str):
            return f"the CPU provider refuses this, too: {want}"
        if words := difference(shapes, got, want, call, part):
            return words
    return "more"


@dataclass
class Tried:
    """Both sessions of a model, and the calls of more than no entries that the CPU provider runs."""

    shapes: Shapes
    ours: InferenceSession
    plain: InferenceSession
    legal: set[tuple] = field(default_factory=set)

    def check(self, dims: Dims, arrays: Arrays) -> str:
        """Return "same", "refused", "more" or "empty"; else what is wrong."""
        shapes = self.shapes
        got = outcome(self.ours, shapes.encode(arrays))
        total = arrays.get("total_sequence_length", np.zeros(0)).tolist()
        kind = (*sorted((name, number) for name, number in dims.items() if name != "batch"), str(total))
        if shapes.crashes and dims["batch"] == 0:
            if isinstance(got, str):
                return f"an empty batch is refused: {got}" if kind in self.legal else "refused"
            return check_alike(shapes, self.plain, got, arrays)
        want = outcome(self.plain, arrays)
        if isinstance(want, str):
            return "refused" if isinstance(got, str) else check_alike(shapes, self.plain, got, arrays)
        self.legal.add(kind)
        if isinstance(got, str):
            return f"the provider refuses it: {got}"
        words = difference(shapes, got, want, arrays)
        if words and shapes.judge is not None:
            words = difference(shapes, got, shapes.judge(arrays), arrays)
        return words or "same"


# ---- The tests ----


def check_all(shapes: Shapes, what: str, tap: Tap) -> None:
    tried, counts = Tried(shapes, *sessions_of(shapes)), Counter[str]()
    for dims, arrays in all_calls(shapes):
        result = tried.check(dims, arrays)
        integers = {n: a.tolist() for n, a in arrays.items() if a.dtype.kind in "iu" and a.dtype.itemsize > 1}
        assert result in RESULTS, f"{dims} {integers}: {result}"
        counts[result] += 1
    assert counts["same"] + counts["more"] > 0, f"no call of {what} is legal"
    tap.comment(", ".join(f"{counts[result]} {result}" for result in RESULTS))


def run_all(tap: Tap, all_shapes: Mapping[str, Shapes]) -> None:
    for what, shapes in all_shapes.items():
        tap.run(f"provider: every legal shape: {what}", partial(check_all, shapes, what, tap))
