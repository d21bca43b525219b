"""Plans on thread pools give the bits of one thread, for shared pools and pools of the caller's;
calls can be bound again.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import kvmill
import numpy as np
from tap import Tap, refused

HEADS, KV_HEADS, DIM, POSITIONS = 8, 4, 64, 4096


class Layer:
    """A token that attends to many positions."""

    def __init__(self, seed: int, packs: Sequence[kvmill.Pack]) -> None:
        rng = np.random.default_rng(seed)
        self.packs = packs
        self.query = rng.standard_normal((1, 1, HEADS, DIM)).astype(np.float16)
        self.side = rng.standard_normal((2, 1, POSITIONS, KV_HEADS, DIM)).astype(np.float16)
        self.wanted = self.run(1)

    def plan(self, threads: int | kvmill.Pool) -> kvmill.CacheAttend:
        shape = {"num_heads": HEADS, "num_kv_heads": KV_HEADS, "key_head_dim": DIM}
        return kvmill.CacheAttend(T1="float16", packs=self.packs, threads=threads, **shape)

    def operands(self, query: np.ndarray) -> dict[str, object]:
        return {"query": query, "key": self.side[0], "value": self.side[1], "lengths": [POSITIONS]}

    def run(self, threads: int | kvmill.Pool) -> bytes:
        return self.plan(threads).run(**self.operands(self.query)).tobytes()


def numbers(layer: Layer) -> None:
    for threads in (2, 0, kvmill.Pool(3, sleeps_at_once=True), kvmill.Pool(1, pinned=True)):
        assert layer.run(threads) == layer.wanted
    assert kvmill.Pool(3).threads == 3 and 1 <= kvmill.Pool().threads <= (os.cpu_count() or 1)


def shared(layer: Layer) -> None:
    """Many threads use one pool, or an executor instead of the plan's pool."""
    plan = layer.plan(2)
    with ThreadPoolExecutor(4) as executor:
        runs = [executor.submit(plan.run, **layer.operands(layer.query)) for _ in range(20)]
        assert all(run.result().tobytes() == layer.wanted for run in runs)
        own = plan.run(executor=executor, **layer.operands(layer.query))
    assert own.tobytes() == layer.wanted


def ends(layer: Layer) -> None:
    """A pool ends with the last plan that uses it."""
    pool = kvmill.Pool(2)
    plan, ended = layer.plan(pool), weakref.ref(pool)
    del pool
    assert plan.run(**layer.operands(layer.query)).tobytes() == layer.wanted and ended()
    del plan
    assert ended() is None


def child(layer: Layer) -> None:
    plan = layer.plan(2)
    pid = os.fork()
    if pid == 0:
        good = plan.run(**layer.operands(layer.query)).tobytes() == layer.wanted
        del plan
        os._exit(not (good and layer.run(2) == layer.wanted))
    assert os.waitpid(pid, 0)[1] == 0


def rebound(layer: Layer) -> None:
    plan = layer.plan(2)
    outputs = [np.zeros_like(layer.query) for _ in range(2)]
    call = plan.prepare(**layer.operands(layer.query), attn_output=outputs[0])
    call.run()
    other = layer.query[..., ::-1].copy()
    call.rebind(**layer.operands(other), attn_output=outputs[1])
    call.run()
    assert outputs[0].tobytes() == layer.wanted
    assert outputs[1].tobytes() == plan.run(**layer.operands(other)).tobytes() != layer.wanted
    refused("accepted:", lambda: call.rebind(nothing=other), TypeError)
    gaps = np.zeros((*other.shape, 3), np.uint8)[..., :2].view(np.float16)[..., 0]
    late = {**layer.operands(layer.query), "attn_output": gaps}
    refused("accepted: multiples", lambda: call.rebind(**late), ValueError)
    outputs[1][:] = 0
    call.run()
    assert outputs[1].tobytes() == plan.run(**layer.operands(other)).tobytes()

    past, update = np.zeros((1, 1, 4, 2), np.float32), np.ones((1, 1, 1, 2), np.float32)
    rows = kvmill.TensorScatter(past, update, threads=2).prepare(past, update, None, past)
    present = past.copy()
    rows.rebind(present, 2 * update, None, present)
    rows.run()
    assert present[0, 0].tolist() == [[2, 2], [0, 0], [0, 0], [0, 0]] and not past.any()


def refusals(layer: Layer) -> None:
    refused("threads is -1; accepted: 0 to 4096", lambda: layer.plan(-1), kvmill.KvmillError)
    refused("with options.pinned", lambda: kvmill.Pool(4096, pinned=True), kvmill.KvmillError)


def run(tap: Tap, packs: Sequence[kvmill.Pack], seed: int) -> None:
    layer = Layer(seed, packs)
    for test in (numbers, shared, ends, child, rebound, refusals):
        tap.run(f"pools: {test.__name__}", lambda test=test: test(layer))
