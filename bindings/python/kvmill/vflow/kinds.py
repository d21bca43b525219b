"""What the ops of vortex_torch have in common: arguments, attributes in flow files, and the shapes of
their results.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import refuse
from .tensors import Shape, number_of, shape_of

# Below, op is an op object with its name as str, and its constructor's arguments as attributes.

Keys = dict[str, Any]
Rule = Callable[[Any, Sequence[Shape]], Shape]


def _integer(op: Any, name: str) -> int:
    value = getattr(op, name)
    if isinstance(value, bool) or not isinstance(value, int):
        refuse(f"{name} of {op} is {value!r}; accepted: an integer")
    return value


def _number(op: Any, name: str) -> int | float:
    return number_of(f"{name} of {op}", getattr(op, name))


# ---- Attributes in flow files ----

def dim_of(*accepted: int) -> Callable[[Any], Keys]:
    def keys(op: Any) -> Keys:
        dim = _integer(op, "dim")
        if dim not in accepted:
            refuse(f"dim of {op} is {dim}; accepted: {', '.join(map(str, accepted))}")
        return {"dim": dim}

    return keys


def numbers(**usual: float | None) -> Callable[[Any], Keys]:
    """Return keys for numbers; one with the usual value is left out."""

    def keys(op: Any) -> Keys:
        given = {name: _number(op, name) for name in usual}
        return {name: value for name, value in given.items() if value != usual[name]}

    return keys


def no_keys(op: Any) -> Keys:
    return {}


def group_keys(op: Any) -> Keys:
    group = _integer(op, "k")
    if group < 1:
        refuse(f"k of {op} is {group}; accepted: 1 or more")
    return {**dim_of(1, 2)(op), "group": group}


def kron_keys(op: Any) -> Keys:
    given = op.dim
    dims = list(given) if isinstance(given, (tuple, list)) else [given]
    if not dims or any(dim not in (1, 2) for dim in dims) or len(set(dims)) != len(dims):
        refuse(f"dim of {op} is {given!r}; accepted: 1, 2, (1, 2)")
    return {"dim": dims[0] if len(dims) == 1 else sorted(dims)}


def softmax_keys(op: Any) -> Keys:
    return {k: v for k, v in (dim_of(0)(op) | numbers(scale=1)(op)).items() if k != "dim"}


def normalize_keys(op: Any) -> Keys:
    dim_of(0)(op)
    return {}


def slice_keys(op: Any) -> Keys:
    bounds = {name: _integer(op, name) for name in ("start", "end")}
    return {**dim_of(1, 2)(op), **bounds, **numbers(alpha=None, beta=None)(op)}


def reshape_keys(op: Any) -> Keys:
    if _integer(op, "batch_dim") != -1:
        refuse(f"batch_dim of {op} is not -1; accepted: Reshape(-1, rows, columns)")
    return {"shape": list(shape_of(f"the shape of {op}", (_integer(op, "x2"), _integer(op, "y2"))))}


def tolerance_keys(op: Any) -> Keys:
    tolerance = _number(op, "tolerate_ratio")
    if not 0 <= tolerance <= 1:
        refuse(f"tolerate_ratio of {op} is {tolerance}; accepted: 0 to 1")
    return {"tolerance": tolerance}


def second_keys(op: Any) -> Keys:
    second = _integer(op, "second")
    if second < 1:
        refuse(f"second of {op} is {second}; accepted: 1 or more")
    return {"second": second}


def taps(op: Any) -> list[list[list[int | float]]]:
    """Return the weights of Conv1d, [taps][rows][columns]."""
    weight = op.weight
    weight = weight.tolist() if hasattr(weight, "tolist") else weight
    try:
        taps = [[[number_of(f"a weight of {op}", x) for x in row] for row in tap] for tap in weight]
    except TypeError:
        taps = []
    sizes = {(len(tap), len(row)) for tap in taps for row in tap}
    if len(sizes) != 1 or sizes == {(1, 0)}:
        refuse(f"weight of {op} is {weight!r}; accepted: a list of matrices of one shape, [taps][rows][columns]")
    return taps


def conv_keys(op: Any) -> Keys:
    dim_of(0)(op)
    taps(op)
    return {}


# ---- Shapes of results ----

def same(op: Any, shapes: Sequence[Shape]) -> Shape:
    return shapes[0]


def _refuse_shapes(op: Any, shapes: Sequence[Shape], accepted: str) -> Shape:
    refuse(f"{op} of {' and '.join(map(str, shapes))}; accepted: {accepted}")


def product(op: Any, shapes: Sequence[Shape]) -> Shape:
    x, y = shapes
    if x.columns != y.columns:
        return _refuse_shapes(op, shapes, "as many columns in both")
    return Shape(x.ragged or y.ragged, y.rows, x.rows)


def _broadcast(a: int, b: int) -> int:
    return a if b in (a, 1) else b if a == 1 else 0


def elementwise(op: Any, shapes: Sequence[Shape]) -> Shape:
    x, y = shapes
    rows, columns = _broadcast(x.rows, y.rows), _broadcast(x.columns, y.columns)
    if rows == 0 or columns == 0:
        return _refuse_shapes(op, shapes, "equal dims, or 1")
    return Shape(x.ragged or y.ragged, rows, columns)


def kron(op: Any, shapes: Sequence[Shape]) -> Shape:
    x, y = shapes
    given = kron_keys(op)["dim"]
    dims = given if isinstance(given, list) else [given]
    sizes = [
        a * b if dim in dims else _broadcast(a, b)
        for dim, a, b in ((1, x.rows, y.rows), (2, x.columns, y.columns))
    ]
    if 0 in sizes:
        return _refuse_shapes(op, shapes, "equal dims, or 1, except along dim")
    return Shape(x.ragged or y.ragged, *sizes)


def over_pages(op: Any, shapes: Sequence[Shape]) -> Shape:
    return shapes[0] if shapes[0].ragged else _refuse_shapes(op, shapes, "over dim 0, a matrix for each page")


def reduced(op: Any, shapes: Sequence[Shape]) -> Shape:
    dim, shape = _integer(op, "dim"), shapes[0]
    if dim == 0:
        return over_pages(op, shapes)._replace(ragged=False)
    return shape._replace(rows=1) if dim == 1 else shape._replace(columns=1)


def grouped(op: Any, shapes: Sequence[Shape]) -> Shape:
    shape, keys = shapes[0], group_keys(op)
    size, group = shape[keys["dim"]], keys["group"]
    if size % group != 0:
        return _refuse_shapes(op, shapes, f"k of {op}, {group}, a divisor of {size}")
    return shape._replace(**{"rows" if keys["dim"] == 1 else "columns": size // group})


def transposed(op: Any, shapes: Sequence[Shape]) -> Shape:
    return Shape(shapes[0].ragged, shapes[0].columns, shapes[0].rows)


def reshaped(op: Any, shapes: Sequence[Shape]) -> Shape:
    rows, columns = reshape_keys(op)["shape"]
    if rows * columns != shapes[0].rows * shapes[0].columns:
        return _refuse_shapes(op, shapes, f"as many elements as [{rows}, {columns}] has")
    return Shape(shapes[0].ragged, rows, columns)


def masked(op: Any, shapes: Sequence[Shape]) -> Shape:
    keys = slice_keys(op)
    size = shapes[0][keys["dim"]]
    if not 0 <= keys["start"] <= keys["end"] <= size:
        return _refuse_shapes(op, shapes, f"0 <= start <= end <= {size}, not {keys['start']} and {keys['end']}")
    return shapes[0]


def scored(op: Any, shapes: Sequence[Shape]) -> Shape:
    if any(shape != Shape(True, 1, 1) for shape in shapes):
        return _refuse_shapes(op, shapes, "a score for each page, [S, 1, 1]")
    return shapes[0]


# ---- A kind of op ----


@dataclass(frozen=True)
class Kind:
    """What all ops of a class have in common.  inputs: names of the tensors that it reads.
    parameters: of the constructor, with defaults.  keys: attributes in a flow file."""

    op: str
    inputs: Sequence[str]
    rule: Rule
    parameters: Mapping[str, Any] = field(default_factory=dict)
    keys: Callable[[Any], Keys] = no_keys
