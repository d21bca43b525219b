"""kvmill's attention in llama.cpp with a real model, compared with llama.cpp's own: make check-llama.

    main.py MODEL.gguf ADAPTER TEXT FOLDER [TOKENS]

First, a greedy text of 256 tokens, with attention nodes compared with sums in double precision.  Then TOKENS (20480)
of a text are evaluated in chunks of 512, and the second half of each chunk is judged: perplexity, and divergence (KLD)
from llama.cpp's own f16 cache, for each cache type, with llama.cpp's attention and with kvmill's.  Results are kept in
FOLDER, where a run that was stopped resumes.  Prints TAP, with figures as remarks and a table.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import exact
import llama_cpp
import numpy as np
from judged import Key, Measured, Record, Row
from llama_engine import Context, Model, load_adapter, loaded_path
from llama_shapes import PAIRS as CACHES

CHUNK, PROMPT, GREEDY = 512, 64, 256
JUDGED = CHUNK // 2
BASE: Key = ("f16", "f16", False)  # the reference for divergence
PIECE = 64  # tokens judged at a time: their logits take 64 MB for each context

_results = [0, 0]


def ok(good: bool, words: str) -> None:
    """Print a line of TAP."""
    _results[0] += 1
    _results[1] += not good
    print(f"{'' if good else 'not '}ok {_results[0]} - {words}", flush=True)


# ---- Caches ----


T = TypeVar("T")


class Judges:
    """Contexts of one thread each, of which as many compute at a time as there are processors.
    Several threads of one context would wait for each other at every node, which takes minutes if
    another program uses a processor."""

    def __init__(self, contexts: dict[Key, Context], threads: int) -> None:
        self.contexts = contexts
        self.measured = {key: Measured() for key in contexts}
        self.seconds = {"llama.cpp": 0.0, "kvmill": 0.0, "judging": 0.0}  # of processor time
        self._pool = ThreadPoolExecutor(threads)

    def _each(self, work: Callable[[Key], T], name: str = "") -> dict[Key, T]:
        """Return what `work` gives for each context.  Without a name, its time counts for the
        context's attention."""

        def timed(key: Key) -> tuple[T, float]:
            began = time.thread_time()
            return work(key), time.thread_time() - began

        found = dict(zip(self.contexts, self._pool.map(timed, self.contexts), strict=True))
        for key, (_, spent) in found.items():
            self.seconds[name or ("kvmill" if key[2] else "llama.cpp")] += spent
        return {key: result for key, (result, _) in found.items()}

    def judge_chunk(self, tokens: list[int]) -> None:
        """Judge the second half of the chunk; one more token follows the chunk."""

        def begin(key: Key) -> None:
            self.contexts[key].rewind()
            self.contexts[key].evaluate(tokens[: CHUNK - JUDGED])

        self._each(begin)
        for piece in range(CHUNK - JUDGED, CHUNK, PIECE):
            self._judge_piece(tokens[piece : piece + PIECE + 1])

    def _judge_piece(self, tokens: list[int]) -> None:
        logits = self._each(lambda key: self.contexts[key].evaluate(tokens[:-1], PIECE))
        base = list(self._pool.map(Row, logits[BASE]))

        def judge(key: Key) -> None:
            for row, own, following in zip(base, logits[key], tokens[1:], strict=True):
                self.measured[key].add(row, Row(own), following)

        self._each(judge, "judging")


def measure(judges: Judges, tokens: list[int], record: Record) -> dict[Key, Measured]:
    """Measure one chunk after the other, beginning where the record ends."""
    seconds, chunks = judges.seconds, (len(tokens) - 1) // CHUNK
    done = record.load(judges.measured, chunks * JUDGED) // JUDGED
    for chunk in range(done, chunks):
        judges.judge_chunk(tokens[chunk * CHUNK :][: CHUNK + 1])
        record.save(judges.measured)
        if chunk == done:
            spent = sum(seconds.values())
            print(f"# a chunk of {chunks} takes {spent:.0f} s of processors", flush=True)
    shares = ", ".join(f"{name} {spent:.0f} s" for name, spent in seconds.items())
    print(f"# {chunks} chunks of {CHUNK}, {chunks - done} of them now: {shares}")
    return judges.measured


def judge(measured: dict[Key, Measured]) -> None:
    """Check that kvmill is no farther from llama.cpp's f16 cache than llama.cpp's own attention
    with the same cache type, except for rounding with f16, where both have the same numbers in
    their caches."""
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


def generate(context: Context, prompt: list[int]) -> tuple[list[int], list[Row]]:
    """Generate GREEDY tokens.  Returns them, and the logits of each step."""
    rows = [Row(context.evaluate(prompt)[-1].copy())]
    text = [int(rows[0].logits.argmax())]
    while len(text) < GREEDY:
        rows.append(Row(context.evaluate(text[-1:])[-1].copy()))
        text.append(int(rows[-1].logits.argmax()))
    return text, rows


def follow(context: Context, prompt: list[int], text: list[int]) -> list[Row]:
    """Return the logits of each step of a given text."""
    rows = [Row(context.evaluate(prompt)[-1].copy())]
    return rows + [Row(context.evaluate([token])[-1].copy()) for token in text[:-1]]


def differ(name: str, one: list[Row], other: list[Row]) -> tuple[np.ndarray, float]:
    """Return the divergence of each step of a text, and the largest difference of a logit."""
    kld = np.array([a.divergence(b) for a, b in zip(one, other, strict=True)])
    largest = [np.abs(a.logits - b.logits).max() for a, b in zip(one, other, strict=True)]
    print(
        f"# | {name} | {np.median(largest):.2g} | {max(largest):.2g} | {np.median(kld):.1e} "
        f"| {max(kld):.1e} |",
        flush=True,
    )
    return kld, float(max(largest))


def is_no_farther(kld: np.ndarray, other: np.ndarray) -> bool:
    """Whether at most half of the steps are farther, plus three standard deviations."""
    return bool((kld > other).sum() <= len(kld) / 2 + 1.5 * len(kld) ** 0.5)


def judge_nodes(errors: dict[str, exact.Errors]) -> None:
    """Check which attention is closer to the exact sums."""
    print("# | attention, error of a node | median | largest |")
    for name, of in errors.items():
        print(f"# | {name} | {np.median(of.of):.1e} | {max(of.of):.1e} |", flush=True)
    theirs, ours = (of.of for of in errors.values())
    ok(
        len(ours) == len(theirs) > 0
        and np.median(ours) <= np.median(theirs)
        and max(ours) <= max(theirs),
        "kvmill's attention is nearer to sums in double precision than llama.cpp's",
    )


def judge_text(contexts: dict[str, Context], prompt: list[int]) -> None:
    """Check that the text is the same or, since llama.cpp's results hardly depend on its threads,
    as near as its attention is to itself without -fa."""
    text, base = generate(contexts["theirs"], prompt)
    ours = follow(contexts["ours"], prompt, text)
    forks = (i for i, row in enumerate(ours) if int(row.logits.argmax()) != text[i])
    same = next(forks, GREEDY)
    print(f"# greedy text of {GREEDY} tokens: the same up to token {same}")
    print("# | between | largest difference of a logit, median | largest | KLD, median | largest |")
    differ("1 and 2 threads", base, follow(contexts["threads"], prompt, text))
    itself, _ = differ("-fa on and off", base, follow(contexts["off"], prompt, text))
    kvmill, largest = differ("llama.cpp and kvmill", base, ours)
    middle = follow(contexts["exact"], prompt, text)
    differ("exact attention and llama.cpp", middle, base)
    differ("exact attention and kvmill", middle, ours)
    ok(largest > 0, "kvmill's own numbers, not llama.cpp's")
    print(f"# kvmill is farther than -fa off at {(kvmill > itself).sum()} of {GREEDY} steps")
    ok(
        same == GREEDY or is_no_farther(kvmill, itself),
        "a greedy text: the same, or as near as -fa off",
    )


def main() -> int:
    model_path, adapter, text, folder = (Path(given) for given in sys.argv[1:5])
    count = int(sys.argv[5]) if len(sys.argv) > 5 else 20480
    threads = len(os.sched_getaffinity(0))
    model = Model(model_path)
    tokens = model.tokens(text.read_text(errors="replace"))[: count + 1]
    print(f"# {len(tokens) - 1} tokens; {threads} contexts at a time, one for the greedy text")
    errors = {"llama.cpp": exact.Errors(), "kvmill": exact.Errors()}
    contexts = {(k, v, False): Context(model, CHUNK, k, v) for k, v in CACHES}
    steps = {
        "theirs": Context(model, CHUNK, attended=errors["llama.cpp"].watch),
        "threads": Context(model, CHUNK, threads=2),
        "off": Context(model, CHUNK, flash=False),
        "exact": Context(model, CHUNK, attended=exact.replace),
    }
    load_adapter(str(adapter))
    contexts |= {(k, v, True): Context(model, CHUNK, k, v) for k, v in CACHES}
    steps["ours"] = Context(model, CHUNK, attended=errors["kvmill"].watch)
    judge_text(steps, tokens[:PROMPT])
    judge_nodes(errors)
    files = [model_path, adapter, loaded_path("libkvmill"), text]
    judge(measure(Judges(contexts, threads), tokens, Record(folder, files, llama_cpp.__version__)))
    for context in [*contexts.values(), *steps.values()]:
        context.close()  # with KVMILL_VERBOSE, each of kvmill's contexts prints what it has computed
    print(f"1..{_results[0]}")
    return _results[1] > 0


if __name__ == "__main__":
    sys.exit(main())
