"""kvmill's attention in llama.cpp with a real model, beside llama.cpp's own: make check-llama.

    main.py MODEL.gguf ADAPTER TEXT [TOKENS]

TOKENS (20480) of a text are evaluated in chunks of 512, the second half of each of them judged:
perplexity, and divergence (KLD) from llama.cpp's own f16 cache, for each type of cache, with
llama.cpp's attention and with ours.  Then a greedy text of 256 tokens.  Results as TAP; figures as
remarks, a table.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from llama_engine import Context, Model, load_adapter
from llama_shapes import PAIRS as CACHES

CHUNK, PROMPT, GREEDY = 512, 64, 256
PIECE = 64  # tokens that are judged at a time: their logits are 64 MB for each context

_results = [0, 0]


def ok(good: bool, words: str) -> None:
    """A line of TAP."""
    _results[0] += 1
    _results[1] += not good
    print(f"{'' if good else 'not '}ok {_results[0]} - {words}", flush=True)


# ---- Numbers ----


def log_probabilities(logits: np.ndarray) -> np.ndarray:
    """Of rows of logits, in float32: what sums of 262144 lose there is far below what is judged."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True, dtype=np.float64)).astype("f4")
    return shifted


def divergence(base: np.ndarray, own: np.ndarray) -> np.ndarray:
    """KLD of each row of log-probabilities from one of `base`."""
    return (np.exp(base) * (base - own)).sum(axis=-1, dtype=np.float64)


class Measured:
    """Of one cache and one attention: the divergences, and the losses of the tokens that came."""

    def __init__(self) -> None:
        self.kld: list[np.ndarray] = []
        self.loss: list[np.ndarray] = []

    def add(self, base: np.ndarray, logits: np.ndarray, following: list[int]) -> None:
        """Rows of logits and the tokens that followed them."""
        own = log_probabilities(logits)
        self.kld.append(divergence(base, own))
        self.loss.append(-own[np.arange(len(following)), following].astype("f8"))

    def perplexity(self) -> float:
        return float(np.exp(np.concatenate(self.loss).mean()))

    def worse_than(self, other: Measured) -> bool:
        """Tokens cost more than chance can make of so few, and than half a hundredth."""
        more = np.concatenate(self.loss) - np.concatenate(other.loss)
        return bool(more.mean() > 0.005 + 3 * more.std() / np.sqrt(len(more)))

    def quantile(self, share: float) -> float:
        return float(np.quantile(np.concatenate(self.kld), share))


# ---- Caches ----


def measure(
    model: Model, contexts: dict[tuple[str, str, bool], Context], tokens: list[int]
) -> dict[tuple[str, str, bool], Measured]:
    """All contexts on one chunk after the other, so that one set of base logits is kept."""
    measured = {key: Measured() for key in contexts}
    for begin in range(0, len(tokens) - CHUNK, CHUNK):
        middle = begin + CHUNK // 2
        for context in contexts.values():
            context.rewind()
            context.evaluate(tokens[begin:middle])
        for piece in range(middle, begin + CHUNK, PIECE):
            base = None
            for key, context in contexts.items():
                logits = context.evaluate(tokens[piece : piece + PIECE], PIECE)
                if base is None:  # llama.cpp's own of f16 is the first
                    base = log_probabilities(logits)
                measured[key].add(base, logits, tokens[piece + 1 : piece + 1 + PIECE])
    return measured


def judge(measured: dict[tuple[str, str, bool], Measured]) -> None:
    """Ours is no farther from llama.cpp's f16 than its own attention with that cache, apart from
    what rounding does with f16, where the two have the same numbers in their caches."""
    rounding = measured["f16", "f16", True].quantile(0.5)
    print("# | K, V | perplexity, llama.cpp | kvmill | KLD median, llama.cpp | kvmill | 99.9 % | |")
    for k, v in CACHES:
        theirs, ours = measured[k, v, False], measured[k, v, True]
        print(
            f"# | {k}, {v} | {theirs.perplexity():.3f} | {ours.perplexity():.3f} "
            f"| {theirs.quantile(0.5):.2e} | {ours.quantile(0.5):.2e} "
            f"| {theirs.quantile(0.999):.2e} | {ours.quantile(0.999):.2e} |"
        )
        ok(
            ours.quantile(0.5) <= 1.05 * theirs.quantile(0.5) + 1.5 * rounding
            and not ours.worse_than(theirs),
            f"{k}, {v}: as near to f16 as llama.cpp's own attention, and its perplexity",
        )


# ---- A greedy text ----


def generate(context: Context, prompt: list[int]) -> tuple[list[int], list[np.ndarray]]:
    """GREEDY tokens, and the logits that each was the largest of."""
    rows = [context.evaluate(prompt)[-1].copy()]
    text = [int(rows[0].argmax())]
    while len(text) < GREEDY:
        rows.append(context.evaluate(text[-1:])[-1].copy())
        text.append(int(rows[-1].argmax()))
    return text, rows


def follow(context: Context, prompt: list[int], text: list[int]) -> list[np.ndarray]:
    """Logits of each step of a text that is given."""
    rows = [context.evaluate(prompt)[-1].copy()]
    return rows + [context.evaluate([token])[-1].copy() for token in text[:-1]]


def differ(name: str, one: list[np.ndarray], other: list[np.ndarray]) -> tuple[float, float]:
    """The median divergence over the steps of a text, and the largest difference of a logit."""
    pairs = [(log_probabilities(a), log_probabilities(b)) for a, b in zip(one, other, strict=True)]
    kld = [float(divergence(a, b)) for a, b in pairs]
    largest = max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))
    print(
        f"# | {name} | {largest:.2g} | {np.median(kld):.1e} | {max(kld):.1e} |", flush=True
    )
    return float(np.median(kld)), largest


def judge_text(contexts: dict[str, Context], prompt: list[int]) -> None:
    """The same text; or, since llama.cpp's own threads make hardly a difference, as near as its
    attention is to itself without -fa."""
    text, base = generate(contexts["theirs"], prompt)
    ours = follow(contexts["ours"], prompt, text)
    forks = (i for i, row in enumerate(ours) if int(row.argmax()) != text[i])
    same = next(forks, GREEDY)
    print(f"# greedy text of {GREEDY} tokens: the same up to token {same}")
    print("# | between | largest difference of a logit | KLD, median | largest |")
    differ("1 and 2 threads", base, follow(contexts["threads"], prompt, text))
    itself, _ = differ("-fa on and off", base, follow(contexts["off"], prompt, text))
    kvmill, largest = differ("llama.cpp and kvmill", base, ours)
    ok(largest > 0, "kvmill's own numbers, not llama.cpp's")
    ok(same == GREEDY or kvmill <= itself, "a greedy text: the same, or no farther than -fa off")


def main() -> int:
    model = Model(sys.argv[1])
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 20480
    tokens = model.tokens(Path(sys.argv[3]).read_text(errors="replace"))[: count + 1]
    print(f"# {len(tokens) - 1} tokens")
    contexts = {(k, v, False): Context(model, CHUNK, k, v) for k, v in CACHES}
    steps = {
        "theirs": Context(model, CHUNK),
        "threads": Context(model, CHUNK, threads=2),
        "off": Context(model, CHUNK, flash=False),
    }
    load_adapter(sys.argv[2])
    contexts |= {(k, v, True): Context(model, CHUNK, k, v) for k, v in CACHES}
    steps["ours"] = Context(model, CHUNK)
    judge_text(steps, tokens[:PROMPT])
    judge(measure(model, contexts, tokens))
    for context in [*contexts.values(), *steps.values()]:
        context.close()  # with KVMILL_VERBOSE each of ours says what it has computed
    print(f"1..{_results[0]}")
    return _results[1] > 0


if __name__ == "__main__":
    sys.exit(main())
