"""The programs of a flow, as its methods run.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .errors import calling_place, refuse
from .tensors import Fields, Shape, Tensor, Value, number_of, shape_of

CACHE, INDEX = "cache", "index"

_MOST_LABEL = 40


class Field(tuple[int, int]):
    """A field in create_cache with more than its rows and columns, which are all that vortex_torch
    knows.  The other arguments are keys of a flow file's fields: dtype, appended, heads, scales,
    powers_of_two."""

    options: dict[str, Any]

    def __new__(
        cls,
        rows: int,
        columns: int,
        *,
        dtype: str | None = None,
        appended: bool = False,
        heads: int | None = None,
        scales: str | None = None,
        powers_of_two: bool = False,
    ) -> Field:
        field = super().__new__(cls, (rows, columns))
        given = {"dtype": dtype, "appended": appended, "heads": heads, "scales": scales}
        given |= {"powers_of_two": powers_of_two}
        field.options = {name: value for name, value in given.items() if value not in (None, False)}
        return field


class Given(Tensor):
    """Numbers that no op computes: a constant of the flow, with taps the weights of Conv1d, or an
    input."""

    def __init__(self, name: str, size: tuple[int, int], numbers: Any, taps: int | None = None) -> None:
        self._numbers, self._taps = numbers, taps
        super().__init__(Value("constant", name, Shape(False, *size)), "requests")

    def _spec(self) -> dict[str, Any]:
        size = [self._value.shape.rows, self._value.shape.columns]
        shape = size if self._taps is None else [self._taps, *size]
        return {"name": self._value.name, "shape": shape, "values": self._numbers}


class Constant(Given):
    """Numbers for forward_indexer: a matrix, or one number for all elements of a shape.

    name: its name in the flow; by default, that of the attribute of the flow that it is.
    """

    def __init__(self, values: Any, shape: Sequence[int] | None = None, *, name: str = "") -> None:
        values = values.tolist() if hasattr(values, "tolist") else values
        if not isinstance(values, (list, tuple)):
            size = shape_of("the shape of a Constant", shape)
            super().__init__(name, size, number_of("a Constant", values))
            return
        rows = [list(row) if isinstance(row, (list, tuple)) else [] for row in values]
        if len({len(row) for row in rows}) != 1:
            refuse("values of a Constant; accepted: a number, or rows of as many numbers each")
        size = shape_of("the shape of a Constant", (len(rows), len(rows[0])))
        super().__init__(name, size, [number_of("a Constant", number) for row in rows for number in row])


class Input(Given):
    """Numbers for forward_indexer that come with each step, such as the queries of an indexer.

    name: its name in the flow; by default, that of the attribute of the flow that it is.
    """

    def __init__(self, shape: Sequence[int], *, name: str = "") -> None:
        super().__init__(name, shape_of("the shape of an Input", shape), "input")


class Step:
    """An op with its operands.  `keys`: its attributes in a flow file.  `target`: the value that it
    gives, the field that it writes, or None.  `writes`: whether it has an effect besides its value."""

    def __init__(
        self, op: str, inputs: Sequence[Value], target: Value | None, writes: bool, keys: dict[str, Any]
    ) -> None:
        self.op, self.inputs, self.target, self.writes, self.keys = op, inputs, target, writes, keys
        self.place = calling_place()

    def spec(self) -> dict[str, Any]:
        inputs = [value.name for value in self.inputs]
        output = {"output": self.target.name} if self.target is not None else {}
        return {"op": self.op, **({"inputs": inputs} if inputs else {}), **self.keys, **output}


class Program:
    """The ops of forward_cache or forward_indexer, in order."""

    def __init__(self, part: str, fields: dict[str, Value]) -> None:
        self.part = part
        self.steps: list[Step] = []
        self.constants: list[Given] = []
        self._fields = fields

    def tensor(self, value: Value) -> Tensor:
        leading = "requests" if value.kind == "q" else "pages"
        return Tensor(value, leading, self._mean if self.part == INDEX else None)

    def cache(self) -> Fields:
        return Fields({name: self.tensor(value) for name, value in self._fields.items()})

    def record(
        self, op: str, inputs: Iterable[Tensor], shape: Shape, label: str, keys: dict[str, Any]
    ) -> Value:
        """Add an op with a new value."""
        result = Value("result", label, shape)
        self.write(op, inputs, result, keys, writes=False)
        return result

    def write(
        self,
        op: str,
        inputs: Iterable[Tensor],
        target: Value | None,
        keys: dict[str, Any],
        writes: bool = True,
    ) -> None:
        """Add an op that writes a field, or selects."""
        values = [self._read(tensor) for tensor in inputs]
        self.steps.append(Step(op, values, target, writes, keys))

    def _read(self, tensor: Tensor) -> Value:
        if isinstance(tensor, Given) and not any(given is tensor for given in self.constants):
            self.constants.append(tensor)
        return tensor._value

    def _mean(self, tensor: Tensor, dim: int) -> Tensor:
        shape = tensor._value.shape
        kept = shape._replace(rows=1) if dim == 1 else shape._replace(columns=1)
        label = f"mean_{tensor._value.label}"
        return self.tensor(self.record("Mean", [tensor], kept, label, {"dim": dim}))

    def drop_unused(self) -> None:
        """Leave out ops whose results nothing uses: vortex_torch accepts them, a flow does not."""
        used: set[Value] = set()
        kept: list[Step] = []
        for step in reversed(self.steps):
            if step.writes or step.target in used:
                used.update(step.inputs)
                kept.append(step)
        self.steps = kept[::-1]
        self.constants = [constant for constant in self.constants if constant._value in used]

    def name_all(self, taken: Iterable[str]) -> None:
        """Give constants and results names of their own."""
        names = Names(taken)
        for constant in self.constants:
            constant._value.name = names.new(constant._value.label or "constant")
        for step in self.steps:
            if step.target is not None and step.target.kind == "result":
                step.target.name = names.new(step.target.label)


class Names:
    """Names that are given once."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {"q", "k", "v", *taken}

    def _candidates(self, word: str) -> Iterator[str]:
        yield word
        number = 2
        while True:
            yield f"{word}_{number}"
            number += 1

    def new(self, label: str) -> str:
        """Return the label as a flow file accepts it, with a number if it is taken."""
        word = re.sub(r"[^A-Za-z0-9_]", "_", label)[:_MOST_LABEL]
        if not word or word[0].isdigit() or re.match(r"_*(km|m4)_", word):
            word = f"op_{word}"[:_MOST_LABEL]
        name = next(name for name in self._candidates(word) if name not in self._taken)
        self._taken.add(name)
        return name
