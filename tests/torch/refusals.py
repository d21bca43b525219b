"""What kvmill.transformers refuses, and the messages.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from functools import partial

import models
import torch
from kvmill import KvmillError
from kvmill.transformers import KvmillCache
from tap import Tap, refused

IDS = torch.ones((2, 5), dtype=torch.int64)


def _forward(model, cache=None, attention: str = "kvmill", **options: object) -> None:
    model.set_attn_implementation(attention)
    with torch.inference_mode():
        model(**{"input_ids": IDS, "past_key_values": cache, **options})


def _in_training(model) -> None:
    model.set_attn_implementation("kvmill")
    model(input_ids=IDS)


def _of_another_batch(model, config) -> None:
    cache = KvmillCache(config)
    _forward(model, cache)
    _forward(model, cache, input_ids=IDS[:1])


def _too_far_back(model, config) -> None:
    cache = KvmillCache(config)
    _forward(model, cache, input_ids=torch.ones((1, 400), dtype=torch.int64))
    cache.crop(-390)


def _rows(model, config):
    """Return parts of messages, and calls that are refused."""
    hole = torch.tensor([[1, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    square = torch.zeros(2, 1, 5, 5)
    other = models.make("Llama").config
    linear = type(config)(
        **{**config.to_dict(), "layer_types": ["full_attention", "linear_attention"]}
    )
    return [
        ("'int3'; accepted: float32, float16,", lambda: KvmillCache(config, format="int3")),
        ("group 0 of a cache format; accepted: 1", lambda: KvmillCache(
            config, format="int8", group=0)),
        ("max_cache_len 0; accepted: None", lambda: KvmillCache(config, max_cache_len=0)),
        ("layer 1 is linear_attention; accepted: full", lambda: KvmillCache(linear)),
        ("int8 in groups of 48 for heads of 256", lambda: _forward(
            model, KvmillCache(config, format="int8", group=48))),
        ('math is "quick"; accepted', lambda: _forward(model, KvmillCache(config, math="quick"))),
        ("5 tokens in a cache with max_cache_len 4", lambda: _forward(
            model, KvmillCache(config, max_cache_len=4))),
        ("a batch of 1 on a cache of 2 sequences", lambda: _of_another_batch(model, config)),
        ("crop(-390) of a layer with a window of 24", lambda: _too_far_back(model, config)),
        ("crop(1); accepted: 0 to 0", lambda: KvmillCache(config).crop(1)),
        ("a window of all positions on a layer that keeps", lambda: _forward(
            models.make("Llama"), KvmillCache(config))),
        ("given to another attention; accepted: model.set_attn", lambda: _forward(
            model, KvmillCache(config), "sdpa")),
        ("given to another attention; accepted: model.set_attn", lambda: _forward(
            model, KvmillCache(config), "eager")),
        ("attention_mask of shape (2, 1, 5, 5) with a KvmillCache", lambda: _forward(
            model, KvmillCache(config), attention_mask=hole)),
        ("attention_mask of shape (2, 1, 5, 5) with a KvmillCache", lambda: _forward(
            models.make("Llama"), KvmillCache(other), attention_mask=square)),
        ("output_attentions: True; accepted: False", lambda: _forward(
            model, output_attentions=True)),
        ("gradients: True; accepted: none", lambda: _in_training(model)),
        ("dropout: 0.5; accepted: 0.0", lambda: _forward(_with_dropout())),
        ("T1 is float64; accepted", lambda: _forward(
            models.make("Llama", torch.float64))),
    ]  # fmt: skip


def _with_dropout():
    model = models.make("Llama").train()
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    return model


def run(tap: Tap) -> None:
    model = models.make("Gemma3")
    kinds = ValueError, TypeError, KvmillError
    for words, make in _rows(model, model.config):
        tap.run(f"refused: {words}", partial(refused, words, make, kinds))
