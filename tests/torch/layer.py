"""Compares a layer of a KvmillCache with attention in double precision over all keys.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass

import numpy as np
import torch
from kvmill.transformers.cache import KvmillLayer
from kvmill.transformers.ops import Scores
from kvmill.transformers.spans import make_spans
from tap import Tap

HEADS, KV_HEADS, DIM, VALUE_DIM = 6, 2, 16, 8
MOST_ERROR = 1e-5  # the error of float32 sums of a thousand terms below 1


@dataclass(frozen=True)
class Scene:
    window: int = 0
    most: int = 0
    pads: tuple[int, ...] = (0,)
    softcap: float = 0.0
    has_sinks: bool = False


SCENES = {
    "grows": Scene(),
    "grows, padded": Scene(pads=(7, 0, 50)),
    "static": Scene(most=1000, pads=(0, 3), softcap=3.0),
    "ring": Scene(window=20, has_sinks=True),
    "ring, padded": Scene(window=20, pads=(40, 0), softcap=3.0),
    "window in a static cache": Scene(window=20, most=200, pads=(0, 9), has_sinks=True),
}


class Naive:
    """Keeps the key and value of every column, in float64."""

    def __init__(self, scene: Scene, sinks: torch.Tensor | None) -> None:
        self.scene, self.sinks = scene, sinks
        self.keys, self.values = [], []

    def _attend(self, query, b: int, h: int, at: int) -> np.ndarray:
        scene, kv_head = self.scene, h // (HEADS // KV_HEADS)
        first = max(scene.pads[b], at - scene.window + 1 if scene.window else 0)
        scores = []
        for j in range(first, at + 1):
            score = float(query @ self.keys[j][b, kv_head]) / DIM**0.5
            scores.append(
                scene.softcap * np.tanh(score / scene.softcap) if scene.softcap else score
            )
        most = max([*scores, -1e300 if self.sinks is None else float(self.sinks[h])])
        total = 0.0 if self.sinks is None else np.exp(float(self.sinks[h]) - most)
        output = np.zeros(VALUE_DIM)
        for j, score in zip(range(first, at + 1), scores, strict=True):
            total += np.exp(score - most)
            output += np.exp(score - most) * self.values[j][b, kv_head]
        return output / total

    def step(self, query, key, value) -> np.ndarray:
        query, key, value = (states.double().numpy() for states in (query, key, value))
        batch, _, tokens, _ = query.shape
        output = np.zeros((batch, tokens, HEADS, VALUE_DIM))
        for i in range(tokens):
            self.keys.append(key[:, :, i])
            self.values.append(value[:, :, i])
            at = len(self.keys) - 1
            for b in range(batch):
                for h in range(HEADS if at >= self.scene.pads[b] else 0):
                    output[b, i, h] = self._attend(query[b, h, i], b, h, at)
        return output

    def crop(self, count: int) -> None:
        del self.keys[len(self.keys) - count :], self.values[len(self.values) - count :]

    def select(self, order: list[int]) -> None:
        self.keys = [key[order] for key in self.keys]
        self.values = [value[order] for value in self.values]


def _states(batch: int, tokens: int) -> list[torch.Tensor]:
    """Draw states as layers project them: tokens before heads."""
    shapes = ((HEADS, DIM), (KV_HEADS, DIM), (KV_HEADS, VALUE_DIM))
    return [torch.randn(batch, tokens, *shape).transpose(1, 2) for shape in shapes]


def _copied(layer: KvmillLayer) -> KvmillLayer:
    """Copy a layer by pickling, so that changes to the original's memory do not matter."""
    own = copy.deepcopy(layer)
    layer.rows.keys.fill_(np.nan)
    layer.rows.values.fill_(np.nan)
    return own


def _check(scene: Scene, draw: random.Random) -> None:
    batch = len(scene.pads)
    sinks = torch.randn(HEADS) if scene.has_sinks else None
    layer = KvmillLayer((None, None), 32, scene.most, scene.window)
    naive, scores = Naive(scene, sinks), Scores(DIM**-0.5, scene.softcap, scene.window)
    length = 0
    while length < (scene.most or 380):
        tokens = min(draw.choice((1, 1, 2, 5, 60)), (scene.most or 380) - length)
        mask = torch.ones(batch, length + tokens, dtype=torch.bool)
        for b, pad in enumerate(scene.pads):
            mask[b, :pad] = False
        spans = make_spans(mask, length, batch, tokens, 0, 0)
        query, key, value = _states(batch, tokens)
        keys, values = layer.update(key, value)
        found = layer.attend(query, keys.take(), values.take(), spans, sinks, scores)
        expected = naive.step(query, key, value)
        worst = np.abs(found.numpy() - expected).max()
        assert worst < MOST_ERROR, f"{worst} at column {length}, {tokens} tokens"
        length += tokens
        if draw.random() < 0.2:
            length -= 1
            layer.crop(-1)
            naive.crop(1)
        if len(set(scene.pads)) == 1 < batch and draw.random() < 0.2:
            order = [draw.randrange(batch) for _ in range(batch)]
            layer.reorder_cache(torch.tensor(order))
            naive.select(order)
        if draw.random() < 0.2:
            layer = _copied(layer)
        assert int(layer.get_seq_length()) == length


def run(tap: Tap, seed: int) -> None:
    for name, scene in {**SCENES, "reordered": Scene(pads=(2, 2, 2))}.items():
        tap.run(f"layer: {name}", lambda scene=scene: _check(scene, random.Random(seed)))
