"""torch tensors as tensors of the library, without copies, and calls that are bound to them.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cache

import torch

from ..arrays import DType, dtype_named, make_tensor, reference
from ..plans import Call, Plan

# The layout of a tensor: shape, strides in elements (() if there are no gaps), element type.
Layout = tuple[tuple[int, ...], tuple[int, ...], DType]
# An address, and the layout of the tensor there.
View = tuple[int, Layout]


@cache
def dtype_of(dtype: torch.dtype) -> DType:
    """Return the library's element type.  Raises TypeError if it has none."""
    return dtype_named(str(dtype).removeprefix("torch."))


def view_of(tensor: torch.Tensor) -> View:
    return tensor.data_ptr(), (tensor.shape, tensor.stride(), dtype_of(tensor.dtype))


def storage_view(tensor: torch.Tensor, dtype: DType, rows: tuple[int, ...]) -> View:
    """Return a view of a contiguous tensor of cache rows, with other dims before the last one."""
    width = tensor.shape[-1] * (2 if dtype.bits == 4 else 1)
    return tensor.data_ptr(), ((*rows, width), (), dtype)


class TensorCall(Call):
    """A call on tensors that are passed as views.  The caller must keep their memory alive."""

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
    """Calls of a plan that no thread is using.  Each has a workspace, which serves all layers."""

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
