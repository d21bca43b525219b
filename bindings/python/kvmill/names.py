"""Names and types of ops' tensors, from the tables.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from .tables import TENSORS


def ordered_names(*ops: str) -> tuple[str, ...]:
    """Return the tensor names of ops that share a list, in the order of that list."""
    indices = {tensor.name: tensor.place for op in ops for tensor in TENSORS[op]}
    return tuple(sorted(indices, key=indices.__getitem__))


def names_of(use: str, *ops: str) -> tuple[str, ...]:
    """Return the names of tensors whose use is "in", "out" or "inout"."""
    used = {tensor.name for op in ops for tensor in TENSORS[op] if tensor.use == use}
    return tuple(name for name in ordered_names(*ops) if name in used)


def types_of(*ops: str) -> dict[str, str]:
    """Return the types of tensors: type names, or the attributes that set them."""
    return {tensor.name: tensor.type for op in ops for tensor in TENSORS[op]}
