"""Pools of threads.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import weakref
from ctypes import byref, c_int, c_void_p
from functools import cache
from typing import TypeAlias

from . import c
from .errors import check
from .ops import integer, make_struct


class Pool:
    """A pool of threads, for the argument `threads` of plans.

    threads: the number of threads, including the caller's; 0: one for each core that this process may
        run on.
    pinned: each thread stays on its own processor.
    sleeps_at_once: threads sleep as soon as a run ends, instead of 50 microseconds later.  Use this if
        the program needs the processors between runs.

    Any number of plans and threads may share a pool.  A pool serves one run at a time: if it is busy,
    a run uses only its caller's thread.  The threads end with the last plan that uses the pool.
    Raises KvmillError.
    """

    def __init__(
        self, threads: int = 0, *, pinned: bool = False, sleeps_at_once: bool = False
    ) -> None:
        error, handle = c.Error(), c_void_p()
        options = make_struct(c.PoolOptions, pinned=pinned, sleeps_at_once=sleeps_at_once)
        count = integer("threads", threads, c_int)
        status = c.library.kvmill_pool_create(count, byref(options), byref(handle), byref(error))
        check(status, error)
        self._handle = handle
        weakref.finalize(self, c.library.kvmill_pool_destroy, handle)

    @property
    def threads(self) -> int:
        """The number of threads in the pool, including the caller's."""
        return int(c.library.kvmill_pool_threads(self._handle))


Threads: TypeAlias = int | Pool

# One pool for each number of threads, shared by all plans that give a number.
_shared = cache(Pool)
os.register_at_fork(after_in_child=_shared.cache_clear)


def pool_of(threads: Threads) -> Pool | None:
    """Return a given pool, or the shared pool of this size; None if only the caller's thread
    runs."""
    if isinstance(threads, Pool):
        return threads
    count = integer("threads", threads, c_int)
    return None if count == 1 else _shared(count)
