"""The packs that plans take kernels from.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

from ..cache_attend import CacheAttend
from ..cache_attention import CacheAttention, MultiHeadCacheAttention
from ..plans import Pack, default_pack

_OPS: dict[str, type[CacheAttention]] = {
    "CacheAttend": CacheAttend,
    "dynamic_batching.MultiHeadCacheAttention": MultiHeadCacheAttention,
}
MOST_PLANS = 1024

_packs: list[Pack] | None = None
_threads = 1
_recorded: list[dict[str, object]] | None = None
_caches: list[Callable] = []
_plans: weakref.WeakSet[CacheAttention] = weakref.WeakSet()


def _default_packs() -> list[Pack]:
    """Return the packs in KVMILL_PACKS (paths separated by colons), and the one next to the
    library."""
    named = [Pack(path) for path in os.environ.get("KVMILL_PACKS", "").split(":") if path]
    installed = default_pack()
    return [*named, *([] if installed is None else [installed])]


def packs() -> Sequence[Pack]:
    """The packs that plans use, in order of preference."""
    global _packs
    if _packs is None:
        _packs = _default_packs()
    return tuple(_packs)


def use_packs(*chosen: Pack) -> None:
    """Prefer these packs from now on, for all models of this process.  The earlier packs are
    searched after them.  Must not be called while another thread runs a model."""
    global _packs
    _packs = [*chosen, *(pack for pack in packs() if pack not in chosen)]
    _forget_plans()


def use_threads(threads: int) -> None:
    """Run attention on this number of threads from now on, including the caller's, for all models
    of this process; 0: one for each core.  Results do not depend on it.

    The threads belong to a pool of the library, are not torch's, and sleep between runs.  Must not
    be called while another thread runs a model.  Raises ValueError if threads is below 0."""
    global _threads
    if threads < 0:
        raise ValueError(f"threads {threads}; accepted: 0 or more")
    _threads = threads
    _forget_plans()


def _forget_plans() -> None:
    for cached in _caches:
        cached.cache_clear()


def cached_plans(make: Callable) -> Callable:
    """Cache the results of `make` by its arguments, until the packs change."""
    cached = lru_cache(MOST_PLANS)(make)
    _caches.append(cached)
    return cached


@contextmanager
def recording() -> Iterator[list[dict[str, object]]]:
    """Collect the specs of all plans made in the meantime, each once.  These plans have no
    packs."""
    global _recorded
    use_packs()
    _recorded = specs = []
    try:
        yield specs
    finally:
        _recorded = None
        use_packs()


def make_plan(op: str, **attributes: object) -> CacheAttention:
    """Return a plan of an op, by its name in specs."""
    if _recorded is not None and {"op": op, **attributes} not in _recorded:
        _recorded.append({"op": op, **attributes})
    is_dynamic = {"dynamic_batching": True} if op.startswith("dynamic_batching.") else {}
    kernels = {"packs": packs()} if _recorded is None else {"packs": (), "portable": "allow"}
    plan = _OPS[op](**kernels, threads=_threads, **attributes, **is_dynamic)
    _plans.add(plan)
    return plan


def describe_plans() -> list[str]:
    """Return the description of each plan in use: its kernels, and why they were selected."""
    return [plan.describe() for plan in _plans]
