"""Turns jax.vmap into a larger batch, and refuses differentiation.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp

from .calls import Seen


@partial(jax.tree_util.register_dataclass, data_fields=["array"], meta_fields=["lead"])
@dataclass
class Batched:
    """An array whose first `lead` dims were added by jax.vmap; the next dim is the batch.  The
    array is never reshaped; ops see it with other dims instead."""

    array: Any
    lead: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape with all mapped dims merged into the batch."""
        shape = self.array.shape
        return prod(shape[: self.lead + 1]), *shape[self.lead + 1 :]

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    def seen(self, *shape: int) -> Seen:
        """Return the array as seen with these dims; by default its own, with one batch dim."""
        return Seen(self.array, shape or self.shape)

    def result(self, shape: Sequence[int], dtype: Any, *seen: int) -> Seen:
        """Return a new array of this shape, with the same mapped dims."""
        lead = self.array.shape[: self.lead]
        batch = shape[0] // prod(lead)
        own = jax.ShapeDtypeStruct((*lead, batch, *shape[1:]), dtype)
        return Seen(own, seen or tuple(shape))

    def updated(self, *seen: int) -> Seen:
        """Return the same array as a result."""
        own = jax.ShapeDtypeStruct(self.array.shape, self.array.dtype)
        return Seen(own, seen or self.shape)

    def mapped(self, size: int, mapped: bool) -> Batched:
        array = self.array
        if not mapped:
            array = jnp.broadcast_to(array, (size, *array.shape))
        return Batched(array, self.lead + 1)


Arrays = dict[str, Batched]
Shared = dict[str, jax.Array]
Run = Callable[[Arrays, Shared], tuple[jax.Array, ...]]


def _one_by_one(run: Run, in_batched: Any, given: tuple[Arrays, Shared]) -> Any:
    """Run in a loop over the axis that jax.vmap maps: it maps an array that all sequences share, or
    is empty, so that no batch says what a sequence is."""
    flat, tree = jax.tree.flatten(given)
    flags = jax.tree.leaves(in_batched)

    def step(mapped: list[jax.Array]) -> tuple[jax.Array, ...]:
        rest = iter(mapped)
        leaves = [next(rest) if flag else leaf for leaf, flag in zip(flat, flags, strict=True)]
        return run(*jax.tree.unflatten(tree, leaves))

    return jax.lax.map(step, [leaf for leaf, flag in zip(flat, flags, strict=True) if flag])


def over_batch(
    name: str, run: Run, batched: dict[str, jax.Array], shared: Shared
) -> tuple[jax.Array, ...]:
    """Call run(batched, shared) such that jax.vmap works.  All arrays of `batched` and all results
    begin with the batch; those of `shared` have no batch."""

    @jax.custom_batching.custom_vmap
    def mappable(batched: Arrays, shared: Shared) -> tuple[jax.Array, ...]:
        return run(batched, shared)

    @mappable.def_vmap
    def _(size: int, in_batched: Any, batched: Arrays, shared: Shared) -> Any:
        if size == 0 or any(in_batched[1].values()):
            results = _one_by_one(mappable, in_batched, (batched, shared))
        else:
            flags = in_batched[0]
            more = {key: a.mapped(size, flags[key].array) for key, a in batched.items()}
            results = mappable(more, shared)
        return results, (True,) * len(results)

    @jax.custom_jvp
    def whole(batched: Arrays, shared: Shared) -> tuple[jax.Array, ...]:
        return mappable(batched, shared)

    @whole.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        raise NotImplementedError(
            f"kvmill.jax.{name} cannot be differentiated; accepted: jax.lax.stop_gradient around "
            "its arguments, or jax.nn.dot_product_attention in its place"
        )

    return whole({key: Batched(array) for key, array in batched.items()}, shared)
