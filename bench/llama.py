#!/usr/bin/env python3
"""llama.cpp with kvmill's attention and with its own: tokens per second, prompts and generation.

    llama.py ADAPTER FOLDER [MODEL.gguf] [--depths 0,4096,...] [--types f16,...] [--models NAME,...]
             [--threads N] [--rounds N] [--prompt N]

ADAPTER: libggml-kvmill.so with kernels for the specs that llama_shapes.py prints.  FOLDER: for the
models with random weights that this program writes.  MODEL.gguf: another model, such as the
Gemma-3-270M that `make check-llama` assembles.

Contexts of one process take turns.  One cache is filled with copies of the rows of CHUNK tokens,
and copied to the other contexts.  Results are medians of ROUNDS.  The time in attention comes from
separate contexts, in which each node is timed.  Packages: tests/llama/requirements.txt.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
from llama_engine import ATTENTION, STORING, Context, Model, load_adapter
from llama_shapes import SHAPES, TYPES, Shape

CHUNK, GENERATED, WORDS = 512, 8, 32000


# ---- Models with random weights ----


def tensors_of(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of a layer's tensors; those with one dim are norms."""
    n, queries, rows = shape.embedding, shape.heads * shape.dim, shape.kv_heads * shape.dim
    yield "attn_norm", (n,)
    yield "attn_q", (queries, n)
    yield "attn_k", (rows, n)
    yield "attn_v", (rows, n)
    yield "attn_output", (n, queries)
    yield "ffn_norm", (n,)
    yield "ffn_gate", (shape.forward, n)
    yield "ffn_up", (shape.forward, n)
    yield "ffn_down", (n, shape.forward)
    if shape.architecture == "gemma2":
        yield "post_attention_norm", (n,)
        yield "post_ffw_norm", (n,)


def set_keys(writer: gguf.GGUFWriter, shape: Shape) -> None:
    """Writes the metadata that llama.cpp requires."""
    writer.add_context_length(1 << 17)
    writer.add_embedding_length(shape.embedding)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.dim)
    writer.add_value_length(shape.dim)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(shape.dim)
    writer.add_vocab_size(WORDS)
    writer.add_tokenizer_model("no_vocab")
    if shape.softcap:
        writer.add_attn_logit_softcapping(shape.softcap)
        writer.add_final_logit_softcapping(30)
        writer.add_sliding_window(4096)


def write_model(path: Path, shape: Shape) -> None:
    """Writes weights in Q4_0, for which llama.cpp has its fastest products."""
    writer = gguf.GGUFWriter(str(path), shape.architecture)
    draw = np.random.default_rng(1)
    set_keys(writer, shape)

    def add(name: str, dims: tuple[int, ...]) -> None:
        if len(dims) == 1:
            value = 0 if name.endswith("bias") else 1
            writer.add_tensor(name, np.full(dims, value, np.float32))
            return
        numbers = draw.standard_normal(dims, np.float32) / np.float32(dims[1] ** 0.5)
        kind = gguf.GGMLQuantizationType.Q4_0
        writer.add_tensor(name, gguf.quants.quantize(numbers, kind), raw_dtype=kind)

    add("token_embd.weight", (WORDS, shape.embedding))
    add("output_norm.weight", (shape.embedding,))
    for layer in range(shape.layers):
        for name, dims in tensors_of(shape):
            add(f"blk.{layer}.{name}.weight", dims)
        for name, count in ("q", shape.heads), ("k", shape.kv_heads), ("v", shape.kv_heads):
            if shape.architecture == "qwen2":
                add(f"blk.{layer}.attn_{name}.bias", (count * shape.dim,))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# ---- Times ----


def generate(context: Context, depth: int) -> float:
    """Seconds per generated token: the median of GENERATED."""
    context.rewind(depth)
    times = [time.perf_counter()]
    for token in range(GENERATED):
        context.evaluate([5 + token])
        times.append(time.perf_counter())
    return statistics.median(after - before for before, after in itertools.pairwise(times))


def prompt(context: Context, depth: int, count: int) -> float:
    """Seconds per token of a prompt."""
    context.rewind(depth)
    began = time.perf_counter()
    context.evaluate([5 + i % 997 for i in range(count)])
    return (time.perf_counter() - began) / count


def fill(context: Context, depth: int) -> None:
    """Fills the cache up to `depth`, a multiple of CHUNK."""
    context.rewind()
    if depth > 0:
        context.evaluate([7 + i % 491 for i in range(CHUNK)])
        context.deepen(depth // CHUNK)


def medians(contexts: list[Context], depth: int, options: argparse.Namespace) -> list[list[float]]:
    """Medians of both contexts, in turns: for tokens of a prompt, then for generated tokens."""
    times = [
        [
            [prompt(context, depth, options.prompt) for context in contexts],
            [generate(context, depth) for context in contexts],
        ]
        for _ in range(options.rounds)
    ]
    return [[statistics.median(r[what][who] for r in times) for who in (0, 1)] for what in (0, 1)]


def in_attention(context: Context, depth: int) -> float:
    """Milliseconds per generated token in nodes that attend or store: the sum of the nodes'
    medians."""
    generate(context, depth)
    context.seconds.clear()
    generate(context, depth)
    nodes = (times for (op, _), times in context.seconds.items() if op in (ATTENTION, STORING))
    return 1e3 * sum(statistics.median(times) for times in nodes)


# ---- All of it ----


def open_contexts(path: Path, adapter: str, cells: int, cache: str, threads: int) -> list[Context]:
    """A context of llama.cpp and one of kvmill; then both again, with times of nodes."""
    model = Model(path)
    theirs = [Context(model, cells, cache, threads=threads, times=times) for times in (False, True)]
    load_adapter(adapter)
    ours = [Context(model, cells, cache, threads=threads, times=times) for times in (False, True)]
    return [theirs[0], ours[0], theirs[1], ours[1]]


def measure(path: Path, name: str, cache: str, options: argparse.Namespace) -> None:
    """Prints a line for each depth."""
    cells = max(options.depths) + max(options.prompt, CHUNK)
    contexts = open_contexts(path, options.adapter, cells, cache, options.threads)
    filled = contexts[1]  # the faster one
    for depth in sorted(options.depths):
        fill(filled, depth)
        for other in contexts:
            if other is not filled and depth > 0:
                other.take(filled)
        (old_prompt, new_prompt), (old, new) = medians(contexts[:2], depth, options)
        was, now = in_attention(contexts[2], depth), in_attention(contexts[3], depth)
        filled.rewind(depth)
        print(
            f"| {name} | {cache} | {depth} | {1 / old_prompt:.0f} | {1 / new_prompt:.0f} "
            f"| {old_prompt / new_prompt:.2f} | {1 / old:.1f} | {1 / new:.1f} | {old / new:.2f} "
            f"| {was:.2f} | {now:.2f} |",
            flush=True,
        )


def model_path(name: str, options: argparse.Namespace) -> Path:
    """The path of a model of SHAPES, which is written if it is missing, or of the given model."""
    if name not in SHAPES:
        return Path(options.model)
    path = Path(options.folder) / f"{name}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        write_model(unfinished, SHAPES[name])
        unfinished.rename(path)
    return path


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("adapter")
    parser.add_argument("folder")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--depths", default="0,4096,16384,32768")
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--models")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompt", type=int, default=512, help="tokens of a prompt, 1 to 512")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.depths = [int(depth) for depth in options.depths.split(",")]
    for depth in options.depths:
        if depth < 0 or depth % CHUNK != 0:
            parser.error(f"--depths: {depth}; accepted: multiples of {CHUNK}")
    options.types = options.types.split(",")
    given = [Path(options.model).stem] if options.model else []
    options.models = options.models.split(",") if options.models else [*given, *SHAPES]
    for name in options.models:
        if name not in [*given, *SHAPES]:
            parser.error(f"--models: {name}; accepted: {', '.join([*given, *SHAPES])}")
    return options


def main() -> int:
    """Starts a process for each model and type: contexts without the adapter must be created
    first."""
    options = read_options()
    if options.alone:
        measure(model_path(options.models[0], options), options.models[0], options.types[0], options)
        return 0
    print(
        "| model | cache | depth | prompt, llama.cpp, tokens/s | kvmill | ratio | generated, "
        "llama.cpp, tokens/s | kvmill | ratio | attention of a token, llama.cpp, ms | kvmill |"
    )
    print("|" + "---|" * 11, flush=True)
    failed = 0
    for name, cache in itertools.product(options.models, options.types):
        case = ["--models", name, "--types", cache, "--alone"]
        failed += subprocess.run([sys.executable, *sys.argv, *case], check=False).returncode != 0
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
