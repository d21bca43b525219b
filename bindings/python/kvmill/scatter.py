"""StableHLO's scatter.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from . import c
from .arrays import (
    array_tensor,
    dtype_of,
    prototype_tensor,
    reference,
    references,
    require_writable,
)
from .ops import set_members
from .plans import Call, Pack, Plan, make_plan, plan_options
from .region import Region, numpy_type

Arrays = np.ndarray | Sequence[np.ndarray]


def _list_of(arrays: Arrays) -> list[np.ndarray]:
    return [arrays] if isinstance(arrays, np.ndarray) else list(arrays)


def _make_op(
    inputs: Sequence[np.ndarray], updates: Sequence[np.ndarray], scatter_indices: np.ndarray
) -> c.ScatterOp:
    if len(inputs) != len(updates):
        raise ValueError(f"{len(updates)} updates; accepted: as many as inputs, {len(inputs)}")
    return c.ScatterOp(
        ctypes.sizeof(c.ScatterOp),
        count=len(inputs),
        inputs=references([prototype_tensor(array, None, ()) for array in inputs]),
        updates=references([prototype_tensor(array, None, ()) for array in updates]),
        scatter_indices=reference(prototype_tensor(scatter_indices, None, ())),
    )


class Scatter(Plan):
    """A plan of stablehlo.scatter: results = inputs, with every element of updates combined at the
    place that scatter_indices tell, in row-major order.

    inputs, updates: an array or, for a variadic scatter, a sequence of arrays; scatter_indices: an
    array.  All are prototypes: their data is not looked at.  Types of fewer than 8 bits take a byte
    each, as ml_dtypes has them.

    update_window_dims to unique_indices: as in the specification of StableHLO.
    window_out_of_bounds: what becomes of a window that is partly outside; "skip_element" (as
        StableHLO says) or "skip_window" (as XLA and JAX do).
    update_computation: replace, add, subtract, multiply, minimum, maximum, and, or, xor; or a
        region as StableHLO text: "^bb0(%a: tensor<f32>, %b: tensor<f32>): %0 = stablehlo.add %a, %b
        : tensor<f32> stablehlo.return %0 : tensor<f32>".  Results have the types that it returns.
    captures: scalars from outside, which a region calls %capture0, %capture1 and so on.
    packs: searched for the best kernels, which portable=True forbids to use.
    isa: best instruction set to use; default: all this CPU has.

    Raises KvmillError for what the library refuses, TypeError and ValueError for arrays that it
    cannot be told about, ValueError for a region that cannot be read, with line and column.
    """

    def __init__(
        self,
        inputs: Arrays,
        scatter_indices: np.ndarray,
        updates: Arrays,
        *,
        update_window_dims: Sequence[int] = (),
        inserted_window_dims: Sequence[int] = (),
        input_batching_dims: Sequence[int] = (),
        scatter_indices_batching_dims: Sequence[int] = (),
        scatter_dims_to_operand_dims: Sequence[int] = (),
        index_vector_dim: int = 0,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        window_out_of_bounds: str = "skip_element",
        update_computation: str = "replace",
        captures: Sequence[np.ndarray | np.generic] = (),
        packs: Sequence[Pack] = (),
        portable: bool = False,
        isa: str | None = None,
    ) -> None:
        self._packs = tuple(packs)
        op = _make_op(_list_of(inputs), _list_of(updates), scatter_indices)
        self._result_types = [array.dtype for array in _list_of(inputs)]
        combiner = self._set_region(op, update_computation, captures)
        set_members(
            op,
            update_window_dims=update_window_dims,
            inserted_window_dims=inserted_window_dims,
            input_batching_dims=input_batching_dims,
            scatter_indices_batching_dims=scatter_indices_batching_dims,
            scatter_dims_to_operand_dims=scatter_dims_to_operand_dims,
            index_vector_dim=index_vector_dim,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            window_out_of_bounds=window_out_of_bounds,
            update_computation=combiner,
        )
        options = plan_options(self._packs, portable, isa)
        self._handle = make_plan(self, "kvmill_plan_scatter", op, options)

    def _set_region(
        self, op: c.ScatterOp, text: str, captures: Sequence[np.ndarray | np.generic]
    ) -> str | None:
        """The text itself, where it is the name of a combiner."""
        self._captures = [np.asarray(capture) for capture in captures]
        self._used: list[bool] = []
        if not text.startswith("^"):
            if self._captures:
                raise ValueError(f"captures of {text!r}; accepted: those of a region")
            return text
        region = Region(text, [dtype_of(capture, None) for capture in self._captures])
        if region.argument_count != 2 * op.count or len(region.results) != op.count:
            raise ValueError(
                f"C23: a region of {region.argument_count} arguments that returns "
                f"{len(region.results)} values; accepted: {2 * op.count} and {op.count}"
            )
        op.region = ctypes.pointer(region.struct)
        self._result_types = [numpy_type(dtype) for dtype in region.results]
        self._used = region.used
        return None

    def _captured(self, captures: Sequence[np.ndarray | np.generic] | None) -> list[np.ndarray]:
        """Those that the region does not use are float32 to the library."""
        given = self._captures if captures is None else captures
        if len(given) != len(self._captures):
            raise ValueError(f"{len(given)} captures; accepted: {len(self._captures)}")
        unused = np.zeros((), np.float32)
        pairs = zip(given, self._used, strict=True)
        return [np.asarray(capture) if used else unused for capture, used in pairs]

    def prepare(
        self,
        inputs: Arrays,
        scatter_indices: np.ndarray,
        updates: Arrays,
        results: Arrays,
        captures: Sequence[np.ndarray | np.generic] | None = None,
    ) -> Call:
        """Bind the plan to arrays, for runs without the cost of Python's side of one.

        results may be inputs: in place.  Everything else as in run().
        """
        for array in _list_of(results):
            require_writable(array, "results")
        arrays = (
            *_list_of(inputs),
            np.asarray(scatter_indices),
            *_list_of(updates),
            *_list_of(results),
            *self._captured(captures),
        )
        wanted = 3 * len(self._result_types) + 1 + len(self._used)
        if len(arrays) != wanted:
            raise ValueError(f"{len(arrays)} arrays; accepted: {wanted}, as the plan has")
        return Call(self, [array_tensor(array) for array in arrays], arrays)

    def run(
        self,
        inputs: Arrays,
        scatter_indices: np.ndarray,
        updates: Arrays,
        results: Arrays | None = None,
        captures: Sequence[np.ndarray | np.generic] | None = None,
    ) -> Arrays:
        """Run on arrays that fit the plan; returns results, as inputs are given: one or a list.

        captures: None for those that the plan was made with.
        results: None for new, row-major arrays; the inputs themselves to work in place; or other
        arrays of the same shapes and types.  Other overlaps of results with another array are
        refused.

        May be called by many threads at a time, on different results.  Raises KvmillError (then
        nothing has been written), TypeError and ValueError.
        """
        if results is None:
            shapes = (array.shape for array in _list_of(inputs))
            kinds = zip(shapes, self._result_types, strict=True)
            made = [np.empty(shape, dtype) for shape, dtype in kinds]
            results = made[0] if isinstance(inputs, np.ndarray) else made
        self.prepare(inputs, scatter_indices, updates, results, captures).run()
        return results
