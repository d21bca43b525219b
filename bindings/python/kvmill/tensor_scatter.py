"""ONNX TensorScatter.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Sequence

import numpy as np

from . import c
from .arguments import words
from .arrays import (
    DTYPES,
    DType,
    Prototype,
    array_tensor,
    as_array,
    dtype_named,
    dtype_of,
    is_staged,
    make_tensor,
    pack_nibbles,
    prototype_tensor,
    reference,
    unpack_nibbles,
    written_array,
)
from .ops import integer, make_struct
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


class TensorScatter(Plan):
    """A plan of ONNX TensorScatter (opset 24): present is past, with the rows of update stored along
    `axis`, beginning at slot write_indices[b] in batch entry b.  With mode "circular", slots wrap
    around.

    past, update, write_indices: prototypes: arrays whose data is ignored, or shapes as tuples, in which
        None is a dim that is known only in a run.  Tuples need dtype.
        past: [batch, ...], of rank 2 or more.
        update: the same shape, except that dim `axis` may be smaller.
        write_indices: int64 [batch], or None for zeros.
    axis: [-rank + 1, -1] or [1, rank - 1].
    mode: "linear" or "circular".
    negative_indices: with "circular", "refused", or "floored": they are taken modulo the capacity.
    dtype: the name of the element type; default: that of the arrays.
    packs: packs in which to search for kernels; default: default_pack(), if it exists.
    portable: what to do if no pack has a kernel.  "warn": issue a PortableKernelWarning once, and use
        portable kernels, which may take ten times as long; "allow": use them without a warning;
        "refuse": raise KvmillError; "only": always use portable kernels.
    dynamic: dims of the prototypes that are known only in a run: any of "batch", "capacity" (dim
        `axis` of past) and "rows" (dim `axis` of update).
    isa: the best instruction set to use; default: all that this CPU has.
    threads: the number of threads that share a run, including the caller's, or a Pool; 0: one for
        each core.

    Raises KvmillError if the library refuses the plan, and TypeError and ValueError for arrays that
    cannot be passed to it.
    """

    def __init__(
        self,
        past: Prototype,
        update: Prototype,
        write_indices: Prototype | None = None,
        *,
        axis: int = -2,
        mode: str = "linear",
        negative_indices: str = "refused",
        dtype: str | None = None,
        packs: Sequence[Pack] | None = None,
        portable: Portable = "warn",
        dynamic: Collection[str] = (),
        isa: str | None = None,
        threads: Threads = 1,
    ) -> None:
        dynamic = words("dynamic", dynamic, ("batch", "capacity", "rows"))
        self._declared = None if dtype is None else dtype_named(dtype)
        self._packs = given_packs(packs)
        tensors = self._prototypes(past, update, write_indices, axis, dynamic)
        past_tensor, update_tensor, indices = map(reference, tensors)
        op = make_struct(
            c.TensorScatterOp,
            axis=axis,
            mode=mode,
            past_cache=past_tensor,
            update=update_tensor,
            write_indices=indices,
            negative_indices=negative_indices,
        )
        options = plan_options(self._packs, portable, isa, threads)
        self._handle = make_plan(self, "kvmill_plan_tensor_scatter", op, options)

    def _prototypes(
        self,
        past: Prototype,
        update: Prototype,
        write_indices: Prototype | None,
        axis: int,
        dynamic: Collection[str],
    ) -> list[c.DLTensor | None]:
        rank = len(past) if isinstance(past, tuple) else as_array(past, "past").ndim
        axis = integer("axis", axis)
        dim_of = {"batch": 0, "capacity": axis % max(rank, 1), "rows": axis % max(rank, 1)}

        def tensor(name: str, prototype: Prototype, declared: DType | None, *dims: str) -> c.DLTensor:
            open_dims = {dim_of[dim] for dim in dims if dim in dynamic}
            return prototype_tensor(prototype, declared, open_dims, name)

        return [
            tensor("past", past, self._declared, "batch", "capacity"),
            tensor("update", update, self._declared, "batch", "rows"),
            None
            if write_indices is None
            else tensor("write_indices", write_indices, _index_type(write_indices), "batch"),
        ]

    def prepare(
        self,
        past: np.ndarray,
        update: np.ndarray,
        write_indices: np.ndarray | None,
        present: np.ndarray,
    ) -> Call:
        """Bind the plan to arrays.  Running the returned call costs no more than in C.

        To work in place, pass past as present.  4-bit types and strings, which NumPy stores
        differently, are refused (TypeError).  Otherwise as run().
        """
        return self._prepare(*self._operands(past, update, write_indices, present))

    def _operands(
        self,
        past: np.ndarray,
        update: np.ndarray,
        write_indices: np.ndarray | None,
        present: np.ndarray,
    ) -> tuple[MakeTensor, Arrays]:
        arrays = as_array(past, "past"), as_array(update, "update"), written_array(present, "present")
        if self._any_staged(arrays):
            accepted = "types that NumPy lays out as the library does (run() takes the others)"
            raise TypeError(f"past has type {arrays[0].dtype}; accepted: {accepted}")
        return self._make_tensor, _ordered(arrays, write_indices)

    def _any_staged(self, arrays: Sequence[np.ndarray]) -> bool:
        named = zip(arrays, ("past", "update", "present"), strict=True)
        return any(is_staged(array, dtype_of(array, self._declared, name)) for array, name in named)

    def _make_tensor(self, i: int, array: np.ndarray) -> c.DLTensor:
        return array_tensor(array, None if i == _WRITE_INDICES else self._declared, _NAMES[i])

    def run(
        self,
        past: np.ndarray,
        update: np.ndarray,
        write_indices: np.ndarray | None = None,
        present: np.ndarray | None = None,
    ) -> np.ndarray:
        """Run on arrays that fit the plan.  Returns present.

        present: None for a new, row-major array; past itself to work in place; or another array of
            the same shape and type, which must not overlap other arrays.  (4-bit types and strings are
            copied first, so they may overlap.)

        Many threads may call this at the same time, with different present arrays.  Raises
        KvmillError (then nothing has been written), TypeError and ValueError.
        """
        past, update = as_array(past, "past"), as_array(update, "update")
        if present is None:
            present = np.empty(past.shape, past.dtype)
        present = written_array(present, "present")
        arrays = past, update, present
        if not self._any_staged(arrays):
            self._run_on(self._make_tensor, _ordered(arrays, write_indices))
            return present
        if len({array.dtype for array in arrays}) != 1:
            raise TypeError(
                f"past, update and present have types {', '.join(str(array.dtype) for array in arrays)}; "
                "accepted for 4-bit types and strings: one type"
            )
        staged = self._run_handles if past.dtype.hasobject else self._run_nibbles
        present[...] = staged(past, update, write_indices, present)
        return present

    def _run_as(
        self,
        dtype: DType,
        shapes: Sequence[Sequence[int]],
        arrays: Sequence[np.ndarray],
        write_indices: np.ndarray | None,
    ) -> None:
        """Run on copies of past, update and present that have the library's layout for elements of
        `dtype`."""

        def make(i: int, array: np.ndarray) -> c.DLTensor:
            if i == _WRITE_INDICES:
                return array_tensor(array, None, "write_indices")
            return make_tensor(dtype, shapes[min(i, 2)], array.ctypes.data)

        self._prepare(make, _ordered(arrays, write_indices)).run()

    def _run_nibbles(
        self,
        past: np.ndarray,
        update: np.ndarray,
        write_indices: np.ndarray | None,
        present: np.ndarray,
    ) -> np.ndarray:
        dtype = dtype_of(past, self._declared)
        packed = [pack_nibbles(past), pack_nibbles(update)]
        packed.append(packed[0] if present is past else np.empty_like(packed[0]))
        shapes = past.shape, update.shape, present.shape
        self._run_as(dtype, shapes, packed, write_indices)
        return unpack_nibbles(packed[2], past.shape, past.dtype)

    def _run_handles(
        self,
        past: np.ndarray,
        update: np.ndarray,
        write_indices: np.ndarray | None,
        present: np.ndarray,
    ) -> np.ndarray:
        table = np.concatenate([past.reshape(-1), update.reshape(-1)])
        handles = np.arange(table.size, dtype=np.uint64)
        old, new = (
            handles[: past.size].reshape(past.shape),
            handles[past.size :].reshape(update.shape),
        )
        moved = old if present is past else np.empty(present.shape, np.uint64)
        arrays = old, new, moved
        shapes = [array.shape for array in arrays]
        self._run_as(DTYPES["string"], shapes, arrays, write_indices)
        return table[moved]


def _index_type(write_indices: Prototype) -> DType | None:
    return DTYPES["int64"] if isinstance(write_indices, tuple) else None


_NAMES = "past", "update", "write_indices", "present"  # names of the op's tensors, by number
_WRITE_INDICES = 2


def _ordered(arrays: Sequence[np.ndarray], write_indices: np.ndarray | None) -> Arrays:
    """Return past, update, the indices and present, by their numbers in the op's order."""
    past, update, present = arrays
    indices = None if write_indices is None else as_array(write_indices, "write_indices")
    return numbered((past, update, indices, present))
