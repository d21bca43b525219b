"""torch's tensors as what the library takes, on the same memory, and calls that are bound to them.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cache

import torch

from ..arrays import DType, dtype_named, make_tensor, reference
from ..plans import Call, Plan

# How a tensor is laid out: shape, strides in elements, () where they are compact, element type.
Layout = tuple[tuple[int, ...], tuple[int, ...], DType]
# Its address, and how it is laid out.
View = tuple[int, Layout]


@cache
def dtype_of(dtype: torch.dtype) -> DType:
    """The library's element type.  Raises TypeError if it has none."""
    return dtype_named(str(dtype).removeprefix("torch."))


def view_of(tensor: torch.Tensor) -> View:
    return tensor.data_ptr(), (tensor.shape, tensor.stride(), dtype_of(tensor.dtype))


def storage_view(tensor: torch.Tensor, dtype: DType, rows: tuple[int, ...]) -> View:
    """A contiguous tensor of cache rows, its last dim kept, seen with other dims before that."""
    width = tensor.shape[-1] * (2 if dtype.bits == 4 else 1)
    return tensor.data_ptr(), ((*rows, width), (), dtype)


class TensorCall(Call):
    """A call on tensors that are given as views.  The caller must keep their memory."""

    _at: dict[str, int]  # numbers of tensors, by name

    def place_named(self, name: str, view: View | None) -> None:
        self.place(self._at[name], view)

    def place(self, index: int, view: View | None) -> None:
        address, layout = view or (None, None)
        if layout != self._layouts.get(index):
            self._structs[index] = None if layout is None else _struct_of(address, layout)
            self._tensors[index] = reference(self._structs[index])
            self._layouts[index] = layout
        elif layout is not None:
            self._structs[index].data = address


def _struct_of(address: int, layout: Layout):
    shape, strides, dtype = layout
    return make_tensor(dtype, shape, address, strides or None)


class Calls:
    """Calls of a plan that no thread is using.  A workspace is allocated once and used for all
    layers."""

    def __init__(self, plan: Plan, names: Sequence[str], kind: type[TensorCall]) -> None:
        self.plan = plan
        self._count, self._kind = len(names), kind
        self._idle: deque[TensorCall] = deque()

    def take(self) -> TensorCall:
        try:
            return self._idle.pop()
        except IndexError:
            return self._kind(self.plan, self._count)

    def give_back(self, call: TensorCall) -> None:
        self._idle.append(call)
