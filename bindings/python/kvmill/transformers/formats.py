"""Cache formats by their names in the command's --cache, and torch tensors that hold their rows.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from ..tables import FORMATS

# torch's types that have a different name in the library.
_TORCH_NAMES = {"float8e4m3fn": "float8_e4m3fn", "float8e5m2": "float8_e5m2", "int4": "uint8"}

# Capacities are multiples of this, so that each sequence begins with a whole tile and a whole cache
# line.
TILE = max(16, *(tile for *_, tile in FORMATS.values()))


class Format(NamedTuple):
    """A format of cache rows.  name: one of FORMATS; group: the number of elements that share a
    scale."""

    name: str
    group: int

    @property
    def _parts(self) -> tuple[str, int, str, int, int, int, int]:
        return FORMATS[self.name]

    @property
    def _has_groups(self) -> bool:
        return self._parts[2] == "groups"

    def attributes(self, dim: int) -> dict[str, object]:
        """Return the attributes of cache attention for rows of `dim` elements, without the prefix
        "value_".

        Raises ValueError if such rows are not possible."""
        type_name, bits, scales, block, _, _, tile = self._parts
        unit = self.group if self._has_groups else max(block, 1)
        if dim % unit:
            raise ValueError(
                f"{self.name} in groups of {unit} for heads of {dim} elements; accepted: a group "
                "that divides the head size, or a format without groups"
            )
        if scales in ("blocks", "row"):
            return {"cache_format": self.name, "quant_bit": 0}
        if not self._has_groups:
            return {"T2": type_name, "quant_bit": 0}
        tiles = {"cache_format": "tiles"} if tile else {}
        return {"quant_bit": bits, "quant_group": self.group, **tiles}

    def new_rows(self, lead: tuple[int, ...], dim: int) -> torch.Tensor:
        """Return a tensor of zeros for rows of `dim` elements; two 4-bit codes share a byte."""
        type_name, bits, _, block, block_bytes, head, _ = self._parts
        codes = dim // 2 if bits == 4 else dim
        width = head + dim // block * block_bytes if block else codes
        dtype = getattr(torch, _TORCH_NAMES.get(type_name, type_name))
        return torch.zeros((*lead, width), dtype=dtype)

    def new_scales(self, lead: tuple[int, ...], dim: int, T1: torch.dtype) -> torch.Tensor | None:
        """Return the scales for as many rows, in the type that goes with activations of type T1, or
        None if the format has no scales."""
        if not self._has_groups:
            return None
        dtype = torch.float32 if T1 == torch.float32 else torch.float16
        return torch.zeros((*lead, dim // self.group), dtype=dtype)


def format_named(name: str, group: int = 32) -> Format:
    """Return the format.  Raises ValueError for a name or a group that is not accepted."""
    if name not in FORMATS:
        raise ValueError(f"cache format {name!r}; accepted: {', '.join(FORMATS)}")
    if group < 1:
        raise ValueError(f"group {group} of a cache format; accepted: 1 or more")
    return Format(name, group)
