"""StableHLO's scatter.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import c
from .arguments import items
from .arrays import (
    DType,
    Operand,
    array_tensor,
    array_type_of,
    as_array,
    dtype_of_c,
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
    numbered,
    plan_options,
)
from .pools import Threads
from .specs import read_element_type, read_region

Arrays = np.ndarray | Sequence[np.ndarray]
Elements = str | Sequence[str | None] | None


def _list_of(name: str, arrays: Arrays) -> list[np.ndarray]:
    if isinstance(arrays, np.ndarray):
        return [arrays]
    return [as_array(array, name) for array in items(name, arrays, "an array or a sequence of arrays")]


def _element_types(name: str, given: Elements, arrays: Sequence[np.ndarray]) -> list[c.ElementType] | None:
    """Return the element type of each array: from the text, or else the array's own."""
    if given is None:
        return None
    texts = [given] if isinstance(given, str) else items(name, given, "element types")
    if len(texts) != len(arrays):
        raise ValueError(f"{name} has {len(texts)} types; accepted: one for each of {len(arrays)} arrays")
    return [
        c.ElementType(dtype=array_tensor(array, None, name).dtype)
        if text is None
        else read_element_type(name, text)
        for text, array in zip(texts, arrays)
    ]


def _array_of(elements: list[c.ElementType] | None) -> Any:
    return None if elements is None else (c.ElementType * len(elements))(*elements)


def _prototypes(
    name: str, arrays: Sequence[np.ndarray], elements: list[c.ElementType] | None
) -> Any:
    declared = [None] * len(arrays) if elements is None else [dtype_of_c(e.dtype) for e in elements]
    return references([prototype_tensor(*given, (), name) for given in zip(arrays, declared)])


def _make_op(
    inputs: Arrays,
    updates: Arrays,
    scatter_indices: np.ndarray,
    elements: Elements,
    update_elements: Elements,
) -> c.ScatterOp:
    inputs, updates = _list_of("inputs", inputs), _list_of("updates", updates)
    if len(inputs) != len(updates):
        raise ValueError(f"updates has {len(updates)} arrays; accepted: as many as inputs, {len(inputs)}")
    types = _element_types("elements", elements, inputs)
    update_types = _element_types("update_elements", update_elements, updates) or types
    return c.ScatterOp(
        ctypes.sizeof(c.ScatterOp),
        count=len(inputs),
        inputs=_prototypes("inputs", inputs, types),
        updates=_prototypes("updates", updates, update_types),
        elements=_array_of(types),
        update_elements=_array_of(update_types),
        scatter_indices=reference(prototype_tensor(scatter_indices, None, (), "scatter_indices")),
    )


def _declared_types(op: c.ScatterOp, region: c.Region | None) -> list[DType | None]:
    """Return the types of inputs, scatter_indices, updates and results; None where the array's own
    type is used."""

    def listed(elements: Any) -> list[DType | None]:
        return [dtype_of_c(elements[i].dtype) if elements else None for i in range(op.count)]

    results = listed(op.elements if region is None else region.arguments)
    return [*listed(op.elements), None, *listed(op.update_elements), *results]


class Scatter(Plan):
    """A plan of stablehlo.scatter: results are the inputs, with each element of updates combined with the
    element that scatter_indices select, in row-major order of updates.

    inputs, updates: an array, or for a variadic scatter a sequence of arrays.
    scatter_indices: an array.  The data of all these arrays is ignored.  Types of fewer than 8 bits
        take a byte for each element, as in ml_dtypes.
    update_window_dims to unique_indices: as in the StableHLO specification.
    window_out_of_bounds: what is skipped if a window is partly outside: "skip_element" (as in
        StableHLO), or "skip_window" (as in XLA and JAX).
    update_computation: "replace" (the default), "add", "subtract", "multiply", "minimum", "maximum",
        "and", "or" or "xor".
    region: instead of update_computation, the text of any region: "^bb0(%old: tensor<f32>, %new:
        tensor<f32>): ...".  With several inputs, the arguments for inputs come first, then those for
        updates.  Results have the region's types.
    captures: types of the scalars from outside that the region calls %capture0, %capture1, ...:
        "tensor<f32>" and so on.  Their values are passed to each run.
    elements, update_elements: element types of inputs and updates, if some are quantised: for one array
        a text such as "!quant.uniform<i8:f32, 0.5:-3>"; for several arrays a sequence, with None for an
        array that is not quantised.  The arrays hold the storage type, or unsigned integers of the same
        size.  By default, updates have the types of inputs.
    packs, portable, isa, threads: as for TensorScatter.

    Raises KvmillError if the library refuses the plan (with line and column, if it refuses a text);
    TypeError and ValueError for arrays that cannot be passed to it; OSError if libkvmill_specs, which
    reads texts, does not exist.
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
        update_computation: str | None = None,
        region: str | None = None,
        captures: Sequence[str] = (),
        elements: Elements = None,
        update_elements: Elements = None,
        packs: Sequence[Pack] | None = None,
        portable: Portable = "warn",
        isa: str | None = None,
        threads: Threads = 1,
    ) -> None:
        self._packs = given_packs(packs)
        op = _make_op(inputs, updates, scatter_indices, elements, update_elements)
        self._set_computation(op, update_computation, region, captures)
        set_members(
            op,
            update_window_dims=update_window_dims,
            inserted_window_dims=inserted_window_dims,
            input_batching_dims=input_batching_dims,
            scatter_indices_batching_dims=scatter_indices_batching_dims,
            scatter_dims_to_operand_dims=scatter_dims_to_operand_dims,
            index_vector_dim=index_vector_dim, window_out_of_bounds=window_out_of_bounds,
            indices_are_sorted=indices_are_sorted, unique_indices=unique_indices,
        )  # fmt: skip
        options = plan_options(self._packs, portable, isa, threads)
        self._handle = make_plan(self, "kvmill_plan_scatter", op, options)

    def _set_computation(
        self,
        op: c.ScatterOp,
        update_computation: str | None,
        region: str | None,
        captures: Sequence[str],
    ) -> None:
        if region is None and captures:
            raise ValueError(f"captures is {captures!r} without a region; accepted: both, or none")
        if region is not None and update_computation is not None:
            raise ValueError(
                f"update_computation is {update_computation!r}, and there is a region; accepted: one of them"
            )
        self._region = None if region is None else read_region(region, op.count, captures)
        self._count, self._captures = int(op.count), len(captures)
        self._names = self._names_of_tensors()
        self._declared = _declared_types(op, self._region)
        if self._region is None:
            word = "replace" if update_computation is None else update_computation
            set_members(op, update_computation=word)
        else:
            op.region = ctypes.pointer(self._region)

    def _new_results(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return new results.  Their types are those of the inputs, unless the region has other
        types."""
        return [
            np.empty(array.shape, self._result_type(i, array)) for i, array in enumerate(inputs)
        ]

    def _result_type(self, i: int, array: np.ndarray) -> np.dtype:
        if self._region is None:
            return array.dtype
        own, wanted = array_tensor(array, self._declared[i]).dtype, self._region.arguments[i].dtype
        same = (own.code, own.bits) == (wanted.code, wanted.bits)
        return array.dtype if same else array_type_of(wanted)

    def prepare(
        self,
        inputs: Arrays,
        scatter_indices: np.ndarray,
        updates: Arrays,
        results: Arrays,
        captures: Sequence[Operand] = (),
    ) -> Call:
        """Bind the plan to arrays.  Running the returned call costs no more than in C.

        To work in place, pass the inputs as results.  The other arguments are those of run().
        """
        return self._prepare(*self._operands(inputs, scatter_indices, updates, results, captures))

    def _operands(
        self,
        inputs: Arrays,
        scatter_indices: np.ndarray,
        updates: Arrays,
        results: Arrays,
        captures: Sequence[Operand] = (),
    ) -> tuple[MakeTensor, Mapping[Any, np.ndarray]]:
        given = [results] if isinstance(results, np.ndarray) else items("results", results, "arrays")
        written = [written_array(array, "results") for array in given]
        scalars = [as_array(scalar, "captures") for scalar in items("captures", captures, "arrays")]
        if len(scalars) != self._captures:
            raise ValueError(f"captures has {len(scalars)} scalars; accepted: {self._captures}")
        lists = {
            "inputs": _list_of("inputs", inputs),
            "updates": _list_of("updates", updates),
            "results": written,
        }
        for name, some in lists.items():
            if len(some) != self._count:
                raise ValueError(f"{name} has {len(some)} arrays; accepted: {self._count}")
        indices = as_array(scatter_indices, "scatter_indices")
        arrays = [*lists["inputs"], indices, *lists["updates"], *written, *scalars]
        return self._tensor, numbered(arrays)

    def _names_of_tensors(self) -> list[str]:
        n = self._count
        arrays = ["inputs"] * n + ["scatter_indices"] + ["updates"] * n + ["results"] * n
        return arrays + ["captures"] * self._captures

    def _tensor(self, i: int, array: np.ndarray) -> c.DLTensor:
        declared = self._declared[i] if i < len(self._declared) else None
        return array_tensor(array, declared, self._names[i])

    def run(
        self,
        inputs: Arrays,
        scatter_indices: np.ndarray,
        updates: Arrays,
        results: Arrays | None = None,
        captures: Sequence[Operand] = (),
    ) -> Arrays:
        """Run on arrays that fit the plan.  Returns results: an array or a list, as inputs are given.

        results: None for new, row-major arrays; the inputs themselves to work in place; or other
            arrays of the same shapes and of the results' types, which must not overlap other arrays.
        captures: the values of the region's captured scalars, such as np.float32(0.5), in order.

        Many threads may call this at the same time, with different results.  Raises KvmillError (then
        nothing has been written), TypeError and ValueError.
        """
        if results is None:
            made = self._new_results(_list_of("inputs", inputs))
            results = made[0] if isinstance(inputs, np.ndarray) else made
        self._run_on(*self._operands(inputs, scatter_indices, updates, results, captures))
        return results
