"""StableHLO's scatter.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from . import c
from .arrays import (
    as_array,
    numbered_tensor,
    prototype_tensor,
    reference,
    references,
    written_array,
)
from .ops import set_members
from .plans import (
    Call,
    MakeTensor,
    Pack,
    Plan,
    Portable,
    given_packs,
    make_plan,
    plan_options,
)
from .pools import Threads

Arrays = np.ndarray | Sequence[np.ndarray]


def _list_of(arrays: Arrays) -> list[np.ndarray]:
    if isinstance(arrays, np.ndarray):
        return [arrays]
    return [as_array(array) for array in arrays]


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
    """A plan of stablehlo.scatter whose region is one combiner: results = inputs, with every
    element of updates combined at the place that scatter_indices tell, in row-major order.

    inputs, updates: an array or, for a variadic scatter, a sequence of arrays; scatter_indices: an
    array.  All are prototypes: their data is not looked at.  Types of fewer than 8 bits take a byte
    each, as ml_dtypes has them.

    update_window_dims to unique_indices: as in the specification of StableHLO.
    window_out_of_bounds: what becomes of a window that is partly outside; "skip_element" (as
        StableHLO says) or "skip_window" (as XLA and JAX do).
    update_computation: replace, add, subtract, multiply, minimum, maximum, and, or, xor.
    packs: searched for the best kernels; default: default_pack(), where there is one.
    portable: what is done where they have none.  "warn": PortableKernelWarning, once, and portable
        kernels do the work, which may take ten times as long; "allow": the same without a word;
        "refuse": KvmillError; "only": they do all.
    isa: best instruction set to use; default: all this CPU has.
    threads: as of TensorScatter.

    Raises KvmillError for what the library refuses, TypeError and ValueError for arrays that it
    cannot be told about.
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
        packs: Sequence[Pack] | None = None,
        portable: Portable = "warn",
        isa: str | None = None,
        threads: Threads = 1,
    ) -> None:
        self._packs = given_packs(packs)
        op = _make_op(_list_of(inputs), _list_of(updates), scatter_indices)
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
            update_computation=update_computation,
        )
        options = plan_options(self._packs, portable, isa, threads)
        self._handle = make_plan(self, "kvmill_plan_scatter", op, options)

    def prepare(
        self, inputs: Arrays, scatter_indices: np.ndarray, updates: Arrays, results: Arrays
    ) -> Call:
        """Bind the plan to arrays, for runs without the cost of Python's side of one.

        results may be inputs: in place.  Everything else as in run().
        """
        return self._prepare(*self._operands(inputs, scatter_indices, updates, results))

    def _operands(
        self, inputs: Arrays, scatter_indices: np.ndarray, updates: Arrays, results: Arrays
    ) -> tuple[MakeTensor, Sequence[np.ndarray]]:
        return numbered_tensor, _ordered(inputs, scatter_indices, updates, results)

    def run(
        self,
        inputs: Arrays,
        scatter_indices: np.ndarray,
        updates: Arrays,
        results: Arrays | None = None,
    ) -> Arrays:
        """Run on arrays that fit the plan; returns results, as inputs are given: one or a list.

        results: None for new, row-major arrays; the inputs themselves to work in place; or other
        arrays of the same shapes and types.  Other overlaps of results with another array are
        refused.

        May be called by many threads at a time, on different results.  Raises KvmillError (then
        nothing has been written), TypeError and ValueError.
        """
        if results is None:
            made = [np.empty(array.shape, array.dtype) for array in _list_of(inputs)]
            results = made[0] if isinstance(inputs, np.ndarray) else made
        self._run_on(numbered_tensor, _ordered(inputs, scatter_indices, updates, results))
        return results


def _ordered(
    inputs: Arrays, scatter_indices: np.ndarray, updates: Arrays, results: Arrays
) -> list[np.ndarray]:
    given = [results] if isinstance(results, np.ndarray) else list(results)
    written = [written_array(array, "results") for array in given]
    return [*_list_of(inputs), as_array(scatter_indices), *_list_of(updates), *written]
