"""What all functions share: jax.vmap becomes a larger batch, and differentiation is refused.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Arrays = dict[str, jax.Array]
Run = Callable[[Arrays, Arrays], tuple[jax.Array, ...]]


def _fold(size: int, array: jax.Array, mapped: bool) -> jax.Array:
    """[size, batch, ...] as [size * batch, ...]."""
    if not mapped:
        array = jnp.broadcast_to(array, (size, *array.shape))
    return array.reshape(size * array.shape[1], *array.shape[2:])


def _one_by_one(run: Run, in_batched: list[Any], given: tuple[Arrays, Arrays]) -> Any:
    """Over the axis that jax.vmap maps, in a loop: where what all sequences share differs."""
    flat, tree = jax.tree.flatten(given)
    flags = jax.tree.leaves(in_batched)

    def step(mapped: list[jax.Array]) -> tuple[jax.Array, ...]:
        rest = iter(mapped)
        leaves = [next(rest) if flag else leaf for leaf, flag in zip(flat, flags, strict=True)]
        return run(*jax.tree.unflatten(tree, leaves))

    return jax.lax.map(step, [leaf for leaf, flag in zip(flat, flags, strict=True) if flag])


def over_batch(name: str, run: Run, batched: Arrays, shared: Arrays) -> tuple[jax.Array, ...]:
    """run (batched, shared), for jax.vmap too: all arrays of `batched` and all results begin with
    the batch, those of `shared` have none."""

    @jax.custom_batching.custom_vmap
    def mappable(batched: Arrays, shared: Arrays) -> tuple[jax.Array, ...]:
        return run(batched, shared)

    @mappable.def_vmap
    def _(size: int, in_batched: list[Any], batched: Arrays, shared: Arrays) -> Any:
        if any(in_batched[1].values()):
            results = _one_by_one(mappable, in_batched, (batched, shared))
        else:
            folded = {key: _fold(size, a, in_batched[0][key]) for key, a in batched.items()}
            results = mappable(folded, shared)
            results = tuple(r.reshape(size, r.shape[0] // size, *r.shape[1:]) for r in results)
        return results, (True,) * len(results)

    @jax.custom_jvp
    def whole(batched: Arrays, shared: Arrays) -> tuple[jax.Array, ...]:
        return mappable(batched, shared)

    @whole.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        raise NotImplementedError(
            f"kvmill.jax.{name} cannot be differentiated; accepted: jax.lax.stop_gradient around "
            "its arguments, or jax.nn.dot_product_attention in its place"
        )

    return whole(batched, shared)
