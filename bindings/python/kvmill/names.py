"""What the tables say of the tensors of ops.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from .tables import TENSORS


def ordered_names(*ops: str) -> tuple[str, ...]:
    """Names of the tensors of ops that share a list, in the order of the list."""
    indices = {tensor.name: tensor.place for op in ops for tensor in TENSORS[op]}
    return tuple(sorted(indices, key=indices.__getitem__))


def names_of(use: str, *ops: str) -> tuple[str, ...]:
    """The names of the tensors that are "in", "out" or "inout"."""
    used = {tensor.name for op in ops for tensor in TENSORS[op] if tensor.use == use}
    return tuple(name for name in ordered_names(*ops) if name in used)


def types_of(*ops: str) -> dict[str, str]:
    """The types of tensors: names, or attributes that determine them."""
    return {tensor.name: tensor.type for op in ops for tensor in TENSORS[op]}
