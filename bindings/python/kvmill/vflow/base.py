"""The base class of flows, and their registry, as vortex_torch has them.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from .errors import nearest, refuse
from .torch_names import DType, dtype_of

Flow = TypeVar("Flow", bound=type)

REGISTRY: dict[str, type] = {}


class RegistryError(Exception):
    pass


def register(name: str) -> Callable[[Flow], Flow]:
    """Register a class under a name, by which it can be loaded, too."""

    def decorate(cls: Flow) -> Flow:
        if not isinstance(cls, type) or not issubclass(cls, (vFlow, vFlowMLA)):
            refuse(f"{cls!r} is registered; accepted: a class that inherits from vFlow or vFlowMLA")
        REGISTRY[name] = cls
        return cls

    return decorate


def get(name: str) -> type:
    if name not in REGISTRY:
        raise RegistryError(f'"{name}" is not registered; {nearest(name, REGISTRY)}accepted: {", ".join(REGISTRY)}')
    return REGISTRY[name]


def has(name: str) -> bool:
    return name in REGISTRY


def list_keys() -> list[str]:
    return list(REGISTRY)


def declared(shapes: dict[str, Any], block_size: int, head_dim: int) -> dict[str, tuple[int, int]]:
    """Return the shapes of all fields, with those of k and v at the end."""
    for name in ("k", "v"):
        assert name not in shapes, f"create_cache declares {name!r}, which every cache has"
    return {**shapes, "k": (block_size, head_dim), "v": (block_size, head_dim)}


class _Methods(ABC):
    @abstractmethod
    def forward_cache(self, cache: Any, loc: Any, ctx: Any) -> Any:
        """Compute the fields of a block."""

    @abstractmethod
    def forward_indexer(self, q: Any, o: Any, cache: Any, ctx: Any) -> Any:
        """Score blocks, and write the list of the best ones to o."""


class vFlowMLA(_Methods):
    """A sparse flow over latent attention: `latent` instead of k and v, with a row of both for each
    token."""

    @abstractmethod
    def create_cache(self, block_size: int, kv_lora_rank: int, qk_rope_head_dim: int) -> dict[str, tuple[int, int]]:
        """Return (rows, columns) of each field that a block has besides latent."""


class vFlow(_Methods):
    """A sparse flow.  Two generations of its functions are known: with sizes as arguments, they count
    elements; without, after initialize, bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.block_size: int | None = None
        self.head_dim: int | None = None
        self.cache_meta_info: dict[str, tuple[tuple[int, int], DType]] | None = None
        self.token_ratio: float | None = None
        self.aux_token_ratio: float | None = None

    @abstractmethod
    def create_cache(self, block_size: int, head_dim: int) -> dict[str, tuple[int, int]]:
        """Return (rows, columns) of each field that a block has besides k and v."""

    def get_cache_meta_info(self, page_size: int | None = None, head_dim: int | None = None) -> Any:
        """With sizes: the shapes of all fields, k and v the last.  Without: what initialize has found,
        (shape, dtype) of each."""
        if page_size is None or head_dim is None:
            return self.cache_meta_info
        return declared(self.create_cache(page_size, head_dim), page_size, head_dim)

    def get_token_ratio(self, page_size: int | None = None, head_dim: int | None = None) -> float | None:
        """With sizes: elements of all fields, k and v too, over those of k.  Without: their bytes."""
        if page_size is None or head_dim is None:
            return self.token_ratio
        shapes: dict[str, tuple[int, int]] = self.get_cache_meta_info(page_size, head_dim)
        return sum(rows * columns for rows, columns in shapes.values()) / (page_size * head_dim)

    def get_aux_token_ratio(self) -> float | None:
        """Bytes of the fields without k and v, over those of k."""
        return self.aux_token_ratio

    def initialize(
        self,
        block_size: int,
        head_dim: int,
        kv_cache_dtype: Any,
        q_data_type: Any = None,
        intermediate_dtype: Any = "bfloat16",
    ) -> None:
        stored, own = dtype_of(kv_cache_dtype), dtype_of(intermediate_dtype)
        self.block_size, self.head_dim = block_size, head_dim
        shapes = declared(self.create_cache(block_size, head_dim), block_size, head_dim)
        self.cache_meta_info = {
            name: ((rows, columns), stored if name in ("k", "v") else own)
            for name, (rows, columns) in shapes.items()
        }
        sizes = {name: r * c * dtype.itemsize for name, ((r, c), dtype) in self.cache_meta_info.items()}
        self.token_ratio = sum(sizes.values()) / sizes["k"]
        self.aux_token_ratio = self.token_ratio - 2
