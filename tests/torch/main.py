"""Compares kvmill.transformers with transformers' own attention, and a layer's cache with a simple
one. Prints TAP.  Environment: KVMILL_LIBRARY, KVMILL_COMMAND; KVMILL_SEED, default 24.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from unittest.mock import patch

import kvmill.transformers as kvmill_transformers
import guide
import layer
import models
import refusals
import torch
from kvmill.transformers import KvmillCache
from tap import Tap, refused

NEW_TOKENS = 20
# The smallest difference of two logits that is compared, by the format of the cache; logits have a
# standard deviation of about 2.4.
LEAST_MARGIN = {"float32": 1e-3, "float16": 0.03}
# Limits for each format: the root mean square of the change in logits, divided by their standard
# deviation.
MOST_DIVERGENCE = {
    "float32": 1e-5,
    "float16": 2e-3,
    "bfloat16": 0.015,
    "int8": 0.05,
    "int8_tiles": 0.05,
    "q8_0": 0.05,
    "float8e4m3fn": 0.25,
    "float8e5m2": 0.5,
    "q5_1": 0.35,
    "int8/int4": 0.5,  # of keys, of values
    "int4": 0.7,
    "int4_tiles": 0.7,
    "q4_0": 0.7,
}
# Microseconds of processor time, on an idle machine.
MOST_ADDED = 25


def padded_batch() -> dict[str, torch.Tensor]:
    ids = torch.randint(1, models.VOCABULARY, (3, 33))
    mask = torch.ones_like(ids)
    mask[0, :20] = mask[2, :32] = 0
    return {"input_ids": ids, "attention_mask": mask}


def generate(model, attention: str, inputs: dict, **options: object) -> list[list[int]]:
    model.set_attn_implementation(attention)
    tokens = model.generate(
        **inputs, max_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=0, **options
    )
    return tokens[:, inputs["input_ids"].shape[1] :].tolist()


def generate_with_margins(model, attention: str, inputs: dict):
    """Generate tokens.  Returns them, and the difference between the two best logits of each
    step."""
    options = {"output_logits": True, "return_dict_in_generate": True}
    model.set_attn_implementation(attention)
    made = model.generate(
        **inputs, max_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=0, **options
    )
    best = torch.stack(made.logits, 1).topk(2).values
    tokens = made.sequences[:, inputs["input_ids"].shape[1] :]
    return tokens.tolist(), (best[..., 0] - best[..., 1]).tolist()


def compare_tokens(found, expected, margins, least: float) -> tuple[int, int]:
    """Count the tokens that differ, and those that were compared.  Tokens of a row after two nearly
    equal logits are not compared, because rounding chooses between them."""
    different = compared = 0
    for row in zip(found, expected, margins, strict=True):
        for token, right, margin in zip(*row, strict=True):
            if margin < least:
                break
            compared += 1
            different += token != right
    return different, compared


@torch.inference_mode()
def logits(model, attention: str, inputs: dict) -> torch.Tensor:
    model.set_attn_implementation(attention)
    return model(**inputs, use_cache=False).logits[inputs["attention_mask"].bool()]


# ---- Models ----


def check_logits(model, reference: str, inputs: dict) -> None:
    expected, found = (logits(model, name, inputs) for name in (reference, "kvmill"))
    assert expected.std() > 0.1
    torch.testing.assert_close(found, expected, atol=2e-4, rtol=0)


def check_model(tap: Tap, name: str) -> None:
    model, reference, inputs = models.make(name), models.ROWS[name].reference, padded_batch()
    tap.run(f"{name}: logits", lambda: check_logits(model, reference, inputs))
    holes = {**inputs, "attention_mask": inputs["attention_mask"].flip(1)}
    tap.run(f"{name}: padding on the right", lambda: check_logits(model, reference, holes))
    expected, margins = generate_with_margins(model, reference, inputs)
    caches = {
        "DynamicCache": {},
        "StaticCache": {"cache_implementation": "static", "disable_compile": True},
        "KvmillCache": {"past_key_values": KvmillCache(model.config)},
        "KvmillCache, static": {"past_key_values": KvmillCache(model.config, max_cache_len=64)},
        "float16": {"past_key_values": KvmillCache(model.config, format="float16")},
    }
    for cache, options in caches.items():
        tokens = generate(model, "kvmill", inputs, **options)
        least = LEAST_MARGIN["float16" if cache == "float16" else "float32"]
        different, compared = compare_tokens(tokens, expected, margins, least)
        tap.result(
            different == 0 and compared > NEW_TOKENS and len(set(sum(expected, []))) > 5,
            f"{name}: generate() with {cache} gives the tokens of {reference}",
            f"{different} of {compared} differ",
        )


# ---- Formats ----


@torch.inference_mode()
def forced_logits(model, tokens: torch.Tensor, cache) -> torch.Tensor:
    """Run the first half of the tokens as a prompt, the others one by one, and return the
    logits."""
    half = tokens.shape[1] // 2
    steps = [tokens[:, :half], *tokens[:, half:].split(1, dim=1)]
    return torch.cat([model(input_ids=step, past_key_values=cache).logits for step in steps], 1)


def check_formats(tap: Tap, name: str) -> None:
    model = models.make(name)
    model.set_attn_implementation("kvmill")
    tokens = torch.randint(1, models.VOCABULARY, (1, 64))
    expected = forced_logits(model, tokens, KvmillCache(model.config))
    for word, most in MOST_DIVERGENCE.items():
        key, value = word.split("/")[0], word.split("/")[-1]
        cache = KvmillCache(model.config, format=key, value_format=value)
        found = forced_logits(model, tokens, cache)
        divergence = ((found - expected).square().mean().sqrt() / expected.std()).item()
        tap.result(
            divergence <= most and (divergence > 0 or word == "float32"),
            f"{name}: a cache of {word} costs at most {most} of the logits' deviation",
            f"{divergence:.2g}",
        )


def check_types(tap: Tap) -> None:
    """Models in 16 bits are as close to float32 as sdpa is, within a factor of 2."""
    inputs = padded_batch()
    exact = logits(models.make("Llama"), "sdpa", inputs)
    for dtype in (torch.float16, torch.bfloat16):
        model = models.make("Llama", dtype)
        errors = [
            (logits(model, name, inputs).float() - exact).abs().max().item()
            for name in ("sdpa", "kvmill")
        ]
        tap.result(errors[1] <= 2 * errors[0], f"{dtype}: as close as sdpa", f"{errors}")


# ---- What generate() does with caches ----


def check_search(tap: Tap) -> None:
    model, inputs = models.make("Gemma3"), padded_batch()
    expected = generate(model, "sdpa", inputs, num_beams=3)
    cache = KvmillCache(model.config)
    found = generate(model, "kvmill", inputs, num_beams=3, past_key_values=cache)
    tap.result(found == expected, "beams reorder the cache")
    one = {name: tensor[1:2] for name, tensor in inputs.items()}
    expected = generate(model, "sdpa", one)
    cache = KvmillCache(model.config)
    kvmill_transformers.use_threads(2)
    options = {"prompt_lookup_num_tokens": 3, "past_key_values": cache}
    found = generate(model, "kvmill", one, **options)
    kvmill_transformers.use_threads(1)
    tap.result(found == expected, "guessed tokens are taken back, with two threads")


def check_compile(tap: Tap, name: str, word: str | None) -> None:
    """A decode step is one graph, in which each layer's attention is one node."""
    model, inputs = models.make(name), padded_batch()
    expected = generate(
        model, "kvmill", inputs, past_key_values=KvmillCache(model.config, format=word)
    )
    nodes = []

    def backend(graph, _):
        nodes.append([str(node.target) for node in graph.graph.nodes])
        return graph

    forward = model.forward
    compiled = torch.compile(forward, backend=backend, fullgraph=True, dynamic=True)

    def decode(*args, input_ids, **options):
        run = forward if input_ids.shape[1] > 1 else compiled
        return run(*args, input_ids=input_ids, **options)

    model.forward = decode
    cache = KvmillCache(model.config, format=word, max_cache_len=64)
    found = generate(model, "kvmill", inputs, past_key_values=cache, disable_compile=True)
    attends = [sum("store_and_attend" in target for target in graph) for graph in nodes]
    tap.result(
        found == expected and attends == [model.config.num_hidden_layers],
        f"{name}, {word or 'float32'}: torch.compile",
        f"{attends} nodes",
    )


# ---- Kernels ----


def check_prepare(tap: Tap) -> None:
    """A pack is built once; with it, the model runs no portable kernels."""
    model, inputs = models.make("Llama"), padded_batch()
    expected = generate(model, "sdpa", inputs)
    with tempfile.TemporaryDirectory() as directory:
        os.environ["XDG_CACHE_HOME"] = directory
        pack = kvmill_transformers.prepare(model, format="float16")
        (built,) = os.scandir(os.path.join(directory, "kvmill", "packs"))
        made = built.stat().st_mtime_ns
        again = kvmill_transformers.prepare(model, format="float16")
        tap.result(
            again.name == pack.name and built.stat().st_mtime_ns == made, "prepare() builds once"
        )
        with patch.dict(os.environ, KVMILL_ISA="scalar"):
            capped = kvmill_transformers.prepare(model, format="float16")
        kinds = {symbol.split("__")[1].split("_")[0] for symbol in capped.symbols}
        tap.result(kinds == {"scalar"}, "prepare() makes kernels that KVMILL_ISA allows", f"{kinds}")
        plans = []
        for cache in (KvmillCache(model.config, format="float16"), None):
            tokens = generate(model, "kvmill", inputs, past_key_values=cache)
            tap.result(
                tokens == expected, f"with its kernels: the same tokens, {cache and 'float16'}"
            )
        plans = [text.split("with a mask")[0] for text in kvmill_transformers.describe_plans()]
        slow = [text for text in plans if "portable" in text]
        tap.result(len(plans) >= 2 and not slow, "no plan needs portable kernels", "\n".join(slow))


def check_command(tap: Tap) -> None:
    """The command is the package's own or the one in PATH, unless KVMILL_COMMAND names another."""
    module = sys.modules["kvmill.making"]
    with patch.object(module, "find_command", return_value="/its own/kvmill") as found:
        with patch.dict(os.environ, KVMILL_COMMAND=""):
            own = module.find_words()
            found.return_value = None
            absent = partial(
                refused, "accepted: kvmill installed, or its path", module.find_words, RuntimeError
            )
            tap.run("without a command: what to install", absent)
        with patch.dict(os.environ, KVMILL_COMMAND="sh 'a b'"):
            named = module.find_words()
    right = own == ["/its own/kvmill"] and named == ["sh", "a b"]
    tap.result(right, "the command is the one that is named, or found", f"{own}, {named}")


def check_import(tap: Tap) -> None:
    """The import works without torch."""
    script = (
        "import sys; sys.modules.update(torch=None)\n"
        "import kvmill\n"
        "try: import kvmill.transformers\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    said = "needs the packages torch and transformers, and torch is not installed" in done.stdout
    tap.result(said and not done.returncode, "without torch: what to install", done.stderr)
    script = "import sys, kvmill; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=False)
    tap.result(done.returncode == 0, "import kvmill does not import torch")


def check_step(tap: Tap) -> None:
    """What a layer's decode step adds to its kernels: the third column from the end of the bench's
    lines."""
    bench = Path(__file__).parents[2] / "bench/python_calls.py"
    done = subprocess.run([sys.executable, "-W", "ignore", bench, "600"], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("kvmill.transformers")]
    added = [float(line.split()[-3]) for line in lines]
    small = len(added) == 3 and max(added) < MOST_ADDED
    tap.result(small, f"a step adds less than {MOST_ADDED} us to its kernels", done.stdout + done.stderr)


def main() -> int:
    seed = int(os.environ.get("KVMILL_SEED", "24"))
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    tap = Tap()
    tap.comment(f"torch {torch.__version__}, seed {seed}")
    layer.run(tap, seed)
    refusals.run(tap)
    for name in models.ROWS:
        check_model(tap, name)
    for name in ("Llama", "Gemma3"):
        check_formats(tap, name)
    check_types(tap)
    check_search(tap)
    for name, word in (("Llama", None), ("Gemma3", "int8"), ("gpt-oss", "float16")):
        check_compile(tap, name, word)
    check_prepare(tap)
    check_command(tap)
    guide.run(tap)
    check_import(tap)
    check_step(tap)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
