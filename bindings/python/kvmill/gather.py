"""StableHLO's gather.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from . import c
from .arguments import shown
from .arrays import (
    DTYPES,
    DType,
    Prototype,
    array_tensor,
    as_array,
    dtype_named,
    dtype_of,
    numpy_type,
    prototype_tensor,
    reference,
    written_array,
)
from .ops import items_of, set_members
from .plans import (
    Arrays,
    Call,
    MakeTensor,
    Pack,
    Plan,
    Portable,
    given_packs,
    make_plan,
    numbered,
    plan_options,
)
from .pools import Threads


class Gather(Plan):
    """A plan of stablehlo.gather: the result has a window of operand for each index vector of
    start_indices.

    operand, start_indices: prototypes: arrays whose data is ignored, or shapes as tuples.  For a
        tuple, the element type of operand is dtype, and that of start_indices is int32.
    slice_sizes, offset_dims, collapsed_slice_dims, operand_batching_dims,
    start_indices_batching_dims, start_index_map, index_vector_dim, indices_are_sorted: as in
        StableHLO.
    mode: for windows that are partly outside.  "clip" moves them inside, as in StableHLO; "fill"
        replaces all of their elements by fill_value.
    fill_value: None for JAX's default: NaN, the lowest signed integer, the highest unsigned integer,
        or True.
    dtype, packs, portable, isa, threads: as for TensorScatter.

    Raises KvmillError if the library refuses the plan, and TypeError and ValueError for arrays that
    cannot be passed to it.
    """

    def __init__(
        self,
        operand: Prototype,
        start_indices: Prototype,
        *,
        slice_sizes: Sequence[int],
        offset_dims: Sequence[int] = (),
        collapsed_slice_dims: Sequence[int] = (),
        operand_batching_dims: Sequence[int] = (),
        start_indices_batching_dims: Sequence[int] = (),
        start_index_map: Sequence[int] = (),
        index_vector_dim: int = 0,
        indices_are_sorted: bool = False,
        mode: str = "clip",
        fill_value: object = None,
        dtype: str | None = None,
        packs: Sequence[Pack] | None = None,
        portable: Portable = "warn",
        isa: str | None = None,
        threads: Threads = 1,
    ) -> None:
        self._declared = None if dtype is None else dtype_named(dtype)
        self._packs = given_packs(packs)
        fill = self._fill = _fill_of(operand, self._declared, fill_value)
        op = _make_op(operand, start_indices, self._declared, fill)
        set_members(
            op,
            offset_dims=offset_dims,
            collapsed_slice_dims=collapsed_slice_dims,
            operand_batching_dims=operand_batching_dims,
            start_indices_batching_dims=start_indices_batching_dims,
            start_index_map=start_index_map,
            slice_sizes=slice_sizes,
            index_vector_dim=index_vector_dim,
            indices_are_sorted=indices_are_sorted,
            mode=mode,
        )
        options = plan_options(self._packs, portable, isa, threads)
        self._handle = make_plan(self, "kvmill_plan_gather", op, options)
        self._result_shape = _result_shape(_shape_of(start_indices), op)

    def prepare(
        self, operand: np.ndarray, start_indices: np.ndarray, result: np.ndarray
    ) -> Call:
        """Bind the plan to arrays.  Running the returned call costs no more than in C."""
        return self._prepare(*self._operands(operand, start_indices, result))

    def _operands(
        self, operand: np.ndarray, start_indices: np.ndarray, result: np.ndarray
    ) -> tuple[MakeTensor, Arrays]:
        operand, start_indices = _arrays(operand, start_indices)
        return self._make_tensor, numbered((operand, start_indices, written_array(result, "result")))

    def _make_tensor(self, i: int, array: np.ndarray) -> c.DLTensor:
        name = ("operand", "start_indices", "result")[i]
        return array_tensor(array, None if i == 1 else self._declared, name)

    def run(
        self, operand: np.ndarray, start_indices: np.ndarray, result: np.ndarray | None = None
    ) -> np.ndarray:
        """Run on arrays that fit the plan.  Returns result.

        result: None for a new, row-major array; or an array of the right shape and type that does not
            overlap the others.

        Many threads may call this at the same time, with different results.  Raises KvmillError (then
        nothing has been written), TypeError and ValueError.
        """
        operand, start_indices = _arrays(operand, start_indices)
        if result is None:
            result = np.empty(cast(Any, self._result_shape), operand.dtype)
        result = written_array(result, "result")
        self._run_on(self._make_tensor, numbered((operand, start_indices, result)))
        return result


def _arrays(operand: object, start_indices: object) -> tuple[np.ndarray, np.ndarray]:
    return as_array(operand, "operand"), as_array(start_indices, "start_indices")


def _window_tensor(prototype: Prototype, declared: DType | None, name: str) -> c.DLTensor:
    """Return the tensor of a prototype whose elements have NumPy's layout."""
    if isinstance(prototype, tuple):
        return prototype_tensor(prototype, declared, (), name)
    return array_tensor(as_array(prototype, name), declared, name)


def _shape_of(prototype: Prototype) -> Sequence[int | None]:
    return prototype if isinstance(prototype, tuple) else np.shape(prototype)


def _fill_of(
    operand: Prototype, declared: DType | None, fill_value: object
) -> np.ndarray | None:
    """Return the fill value as one element, of the operand's type if the operand is an array."""
    if fill_value is None:
        return None
    array = None if isinstance(operand, tuple) else as_array(operand, "operand")
    dtype = declared if array is None else dtype_of(array, declared, "operand")
    refused = f"fill_value is {shown(fill_value)}; accepted: an element of the operand's type"
    try:
        fill = np.array([fill_value], array.dtype if array is not None else numpy_type(declared))
    except (TypeError, ValueError, OverflowError):
        raise TypeError(refused) from None
    if fill.shape != (1,) or fill.dtype.hasobject or dtype is None or fill.itemsize != dtype.itemsize:
        raise TypeError(refused)
    return fill


def _make_op(
    operand: Prototype, start_indices: Prototype, declared: DType | None, fill: np.ndarray | None
) -> c.GatherOp:
    index_type = DTYPES["int32"] if isinstance(start_indices, tuple) else None
    return c.GatherOp(
        ctypes.sizeof(c.GatherOp),
        operand=reference(_window_tensor(operand, declared, "operand")),
        start_indices=reference(_window_tensor(start_indices, index_type, "start_indices")),
        fill_value=None if fill is None else fill.ctypes.data,
    )


def _result_shape(starts: Sequence[int | None], op: c.GatherOp) -> list[int | None]:
    """Return the result's shape: window extents at offset_dims, extents of the index space
    elsewhere."""
    offset_dims = items_of(op.offset_dims)
    dropped = {*items_of(op.collapsed_slice_dims), *items_of(op.operand_batching_dims)}
    window = [n for d, n in enumerate(items_of(op.slice_sizes)) if d not in dropped]
    space = [n for d, n in enumerate(starts) if d != op.index_vector_dim]
    points, extents = iter(space), iter(window)
    axes = range(len(space) + len(window))
    return [next(extents) if d in offset_dims else next(points) for d in axes]
