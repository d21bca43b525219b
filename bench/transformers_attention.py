#!/usr/bin/env python3
"""Attention within generate() of Hugging Face's transformers: "kvmill" with a KvmillCache against
"sdpa" with a DynamicCache, on a model with random weights and the heads of Llama-3.1-8B.

    transformers_attention.py [TOKENS [ROUNDS]]        default: 2048 5

Times what attention costs per layer: storing keys and values in the cache, and attending.  Prints
medians of processor time per layer in microseconds, for a prompt of TOKENS and for the tokens
generated after it, and the ratios of these medians.  Contenders take turns, each on one thread.
Needs torch, transformers, and what kvmill.transformers.prepare() needs.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import defaultdict

import torch
import transformers
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, DynamicCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from kvmill.transformers import KvmillCache, prepare
from kvmill.transformers.attention import attention, make_mask

NEW_TOKENS = 17
LAYERS = 4
CONTENDERS = {
    "sdpa float32": (torch.float32, None),
    "sdpa bfloat16": (torch.bfloat16, None),
    "kvmill float32": (torch.float32, {}),
    "kvmill bfloat16": (torch.bfloat16, {}),
    "kvmill bfloat16, int8, near": (torch.bfloat16, {"format": "int8", "math": "near"}),
}


class Timer:
    """Seconds of storing and attending, by the number of queries in a step: one entry per layer."""

    def __init__(self) -> None:
        self.seconds: dict[int, list[float]] = defaultdict(list)
        self._storing = 0.0

    def update(self, function):
        def timed(*arguments, **options):
            begin = time.thread_time()
            result = function(*arguments, **options)
            self._storing = time.thread_time() - begin
            return result

        return timed

    def attention(self, function):
        def timed(module, query, *arguments, **options):
            begin = time.thread_time()
            result = function(module, query, *arguments, **options)
            seconds = time.thread_time() - begin + self._storing
            self.seconds[query.shape[2]].append(seconds)
            return result

        return timed


def make_model(dtype: torch.dtype) -> transformers.PreTrainedModel:
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=256,
        intermediate_size=64,
        num_hidden_layers=LAYERS,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=1 << 17,
        eos_token_id=None,
    )
    return transformers.LlamaForCausalLM(config).eval().to(dtype)


def generate(model, options: dict | None, tokens: torch.Tensor, timer: Timer) -> None:
    name = "timed_sdpa" if options is None else "timed_kvmill"
    function, mask = (
        (sdpa_attention_forward, sdpa_mask) if options is None else (attention, make_mask)
    )
    AttentionInterface.register(name, timer.attention(function))
    AttentionMaskInterface.register(name, mask)
    model.set_attn_implementation(name)
    cache = (
        DynamicCache(config=model.config)
        if options is None
        else KvmillCache(model.config, **options)
    )
    own = Cache.update
    Cache.update = timer.update(own)
    try:
        model.generate(
            tokens,
            past_key_values=cache,
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            pad_token_id=0,
        )
    finally:
        Cache.update = own


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2048
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    torch.set_num_threads(1)
    torch.manual_seed(0)
    models, timers = {}, {name: Timer() for name in CONTENDERS}
    for name, (dtype, options) in CONTENDERS.items():
        models[name] = make_model(dtype)
        if options is not None:
            prepare(models[name], **options)
    tokens = torch.randint(1, 64, (1, count))
    for _ in range(rounds):
        for name, (_, options) in CONTENDERS.items():
            generate(models[name], options, tokens, timers[name])
    for queries, what in ((count, "prompt"), (1, "one token")):
        medians = {
            name: statistics.median(timer.seconds[queries]) for name, timer in timers.items()
        }
        print(f"{what}, {count} tokens in the cache: microseconds a layer")
        for name, median in medians.items():
            ratios = [medians[rival] / median for rival in ("sdpa float32", "sdpa bfloat16")]
            print(f"  {name:28} {median * 1e6:10.0f}   {ratios[0]:6.2f} x {ratios[1]:6.2f} x")


if __name__ == "__main__":
    main()
