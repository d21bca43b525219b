#!/usr/bin/env python3
"""What Python costs in addition to the kernels: microseconds of processor time for a run of a plan.

If torch and transformers are installed, also for a layer's decode step in kvmill.transformers.

    python_calls.py [ROUNDS]        default: 2000

"above" is the time of a run minus that of a prepared call, or the time of a step minus that of its
calls of the library: the least and the median of the rounds.  16 tokens in the cache, float32, 8
heads on 2 of 64; 16 layers.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

import kvmill

HEADS, KV_HEADS, DIM, TOKENS, LAYERS = 8, 2, 64, 16, 16
clock = time.thread_time_ns


def floats(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def show(name: str, above: Sequence[float], kernel: Sequence[float]) -> None:
    least, median = min(above) / 1e3, statistics.median(above) / 1e3
    print(f"{name:66} {least:7.1f} {median:7.1f} {min(kernel) / 1e3:8.1f}")


# ---- Plans ----

OPTIONS = {"T1": "float32", "num_heads": HEADS, "portable": "allow"}
NEW = {
    "query": floats(1, HEADS, DIM),
    "current_key": floats(1, KV_HEADS, DIM),
    "current_value": floats(1, KV_HEADS, DIM),
}
LENGTHS = {
    "seqstarts": numbers(0, 1),
    "kvstarts": numbers(0, TOKENS),
    "start_pos": numbers(TOKENS - 1),
    "cachestarts": numbers(0),
    "decoding_batches": numbers(1),
    "max_seqlen": numbers(1),
    "max_kvlen": numbers(TOKENS),
}


def plans():
    """Yields names, plans, inputs and outputs."""
    heads = {**OPTIONS, "num_kv_heads": KV_HEADS}
    output = {"attn_output": floats(1, 1, HEADS, DIM)}
    rows = {"key": floats(1, TOKENS, KV_HEADS, DIM), "value": floats(1, TOKENS, KV_HEADS, DIM)}
    attend = {"query": floats(1, 1, HEADS, DIM), **rows, "lengths": numbers(TOKENS)}
    yield "CacheAttend", kvmill.CacheAttend(**heads, key_head_dim=DIM), attend, output
    store = {name: array[None] for name, array in NEW.items()}
    store |= {"start_pos": numbers(TOKENS - 1), "cache": floats(1, 1, 2, TOKENS, KV_HEADS, DIM)}
    plan = kvmill.MultiHeadCacheAttention(**heads, head_dim=DIM)
    yield "MultiHeadCacheAttention", plan, store, output
    plan = kvmill.MultiHeadCacheAttention(**heads, head_dim=DIM, dynamic_batching=True)
    store = {**NEW, **LENGTHS, "cache": floats(TOKENS, 1, 2, KV_HEADS, DIM)}
    output = {"attn_output": floats(1, HEADS, DIM)}
    yield "MultiHeadCacheAttention, dynamic batching", plan, store, output


def repeated(run: Callable[[], object], times: int = 50) -> float:
    begin = clock()
    for _ in range(times):
        run()
    return (clock() - begin) / times


def time_plan(name: str, plan, inputs: dict, outputs: dict, rounds: int) -> None:
    call = plan.prepare(**inputs, **outputs)
    kernel = [repeated(call.run) for _ in range(rounds // 10)]
    for what, arrays in (("", inputs), (", with an output", {**inputs, **outputs})):
        run = [repeated(lambda given=arrays: plan.run(**given)) for _ in range(rounds // 10)]
        show(f"{name}{what}: {len(arrays)} arrays", [n - min(kernel) for n in run], kernel)


# ---- kvmill.transformers ----


def states(batch: int, heads: int, tokens: int):
    return importlib.import_module("torch").ones(batch, tokens, heads, DIM).transpose(1, 2)


def step(layers: list, mask, batch: int, stored: int, tokens: int, spent: list[int]) -> tuple:
    """Nanoseconds per layer outside and inside the library, which adds its time to `spent`."""
    from kvmill.transformers import attention

    query = states(batch, HEADS, tokens)
    key, value = states(batch, KV_HEADS, tokens), states(batch, KV_HEADS, tokens)
    begin, spent[0] = clock(), 0
    spans = attention.make_mask(batch, tokens, stored + tokens, stored, attention_mask=mask)
    for layer in layers:
        rows = layer.update(key, value)
        attention.attention(None, query, *rows, spans, DIM**-0.5)
    return (clock() - begin - spent[0]) / LAYERS, spent[0] / LAYERS


def time_steps(rounds: int) -> None:
    import torch
    from kvmill.transformers import ops
    from kvmill.transformers.cache import KvmillLayer

    torch.set_num_threads(1)
    spent, run_call = [0], ops._StoreCall.run

    def timed(call) -> None:
        begin = clock()
        run_call(call)
        spent[0] += clock() - begin

    ops._StoreCall.run = timed
    for name, pads in (("one sequence", (0,)), ("4", (0,) * 4), ("4, padded", (0, 3, 7, 1))):
        layers = [KvmillLayer((None, None), 32) for _ in range(LAYERS)]
        mask = torch.arange(TOKENS) >= torch.tensor(pads)[:, None]
        steps = []
        with torch.inference_mode():
            step(layers, mask[:, :-1], len(pads), 0, TOKENS - 1, spent)
            for _ in range(rounds):
                steps.append(step(layers, mask, len(pads), TOKENS - 1, 1, spent))
                for layer in layers:
                    layer.crop(-1)
        show(f"kvmill.transformers, a layer's step, {name}", *zip(*steps[10:], strict=True))


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    print(f"{'us':66} {'above':>7} {'median':>7} {'kernels':>8}")
    for scene in plans():
        time_plan(*scene, rounds)
    if importlib.util.find_spec("torch") and importlib.util.find_spec("transformers"):
        time_steps(rounds)


if __name__ == "__main__":
    main()
