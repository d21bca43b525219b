"""Compares logits of llama.cpp's contexts with those of one context: divergence and loss of each
token.

Results are saved to a file after each chunk, so that a run that was stopped resumes there.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np


class Row:
    """The logits of one token: 1 MB for a vocabulary of 262144, which fits into the processor's
    caches.  float32 sums have errors of 1e-6, far below the differences that matter."""

    def __init__(self, logits: np.ndarray) -> None:
        self.logits = logits
        largest = logits.max()
        self.shares = np.exp(logits - largest)
        total = self.shares.sum()
        self.shares /= total
        self.sum = float(largest) + float(np.log(total))  # log of the sum of exp of all logits

    def loss(self, token: int) -> float:
        return self.sum - float(self.logits[token])

    def divergence(self, other: Row) -> float:
        """Return the divergence (KLD) of the other's probabilities from these."""
        return float(self.shares @ (self.logits - other.logits)) + other.sum - self.sum


class Measured:
    """The results for one cache and one attention."""

    def __init__(self) -> None:
        self.kld: list[float] = []
        self.loss: list[float] = []

    def add(self, base: Row, own: Row, following: int) -> None:
        """Add a token, and the token that follows it in the text."""
        self.kld.append(base.divergence(own))
        self.loss.append(own.loss(following))

    def perplexity(self) -> float:
        return float(np.exp(np.mean(self.loss)))

    def worse_than(self, other: Measured) -> bool:
        """Whether tokens have a higher loss than chance explains for this number of tokens, and by
        more than half a hundredth."""
        more = np.array(self.loss) - np.array(other.loss)
        return bool(more.mean() > 0.005 + 3 * more.std() / np.sqrt(len(more)))

    def quantile(self, share: float) -> float:
        return float(np.quantile(self.kld, share))


Key = tuple[str, str, bool]  # types of K and V, kvmill's attention


class Record:
    """A file with the results for one model, text and build."""

    def __init__(self, folder: Path, files: list[Path], version: str) -> None:
        known = hashlib.sha256(version.encode())
        for file in files:
            known.update(hashlib.sha256(file.read_bytes()).digest())
        self.path = folder / f"measured-{known.hexdigest()[:16]}.npz"

    def load(self, measured: dict[Key, Measured], most: int) -> int:
        """Load results.  Returns how many tokens all of them have, at most `most`."""
        if not self.path.exists():
            return 0
        with np.load(self.path) as kept:
            for (k, v, ours), of in measured.items():
                of.kld, of.loss = kept[f"{k} {v} {ours}"][:, :most].tolist()
        return len(of.kld)

    def save(self, measured: dict[Key, Measured]) -> None:
        unfinished = self.path.with_suffix(".part.npz")
        rows = {f"{k} {v} {ours}": [of.kld, of.loss] for (k, v, ours), of in measured.items()}
        np.savez(unfinished, **rows)
        unfinished.rename(self.path)
