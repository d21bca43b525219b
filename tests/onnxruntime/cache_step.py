"""Models with caches that `kvmill rewrite --cache` has turned into blocks of llama.cpp: run by the
provider and by custom ops, compared with sums in double precision over what the caches hold, and
with the original model.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from models import (
    FLOAT,
    FLOAT16,
    INT64,
    attend,
    claims,
    make_model,
    options_of,
    plain_session,
    provider_session,
    require_close,
    run,
    run_in_place,
    step_nodes,
    value,
)
from onnx import TensorProto, helper
from tap import Tap, refused

BLOCK, CASES = 32, 12
HEADS, KV_HEADS, DIM = 8, 2, 64

# How far a step's output may be from that of the original model, as a share of its largest element,
# by the formats of K and V.
DIVERGENCE = {"q8_0": 0.02, "q4_0": 0.25}
NEAR = 1e-3  # math near: 5e-4 of the largest output


# ---- Blocks, as llama.cpp's reference has them: a float16 scale, then codes ----


def q8_0(rows: np.ndarray) -> np.ndarray:
    """Return the bytes of rows whose last dim is a whole number of blocks."""
    blocks = rows.astype(np.float32).reshape(*rows.shape[:-1], -1, BLOCK)
    scale = np.abs(blocks).max(-1, keepdims=True) / np.float32(127)
    scaled = blocks * np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    codes = np.trunc(scaled + np.copysign(np.float32(0.5), scaled)).astype(np.int8)
    parts = [scale.astype(np.float16).view(np.uint8), codes.view(np.uint8)]
    return np.concatenate(parts, -1).reshape(*rows.shape[:-1], -1)


def q4_0(rows: np.ndarray) -> np.ndarray:
    blocks = rows.astype(np.float32).reshape(*rows.shape[:-1], -1, BLOCK)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)
    scale = largest / np.float32(-8)
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale != 0)
    codes = np.minimum(15, np.trunc(blocks * inverse + np.float32(8.5))).astype(np.uint8)
    nibbles = codes[..., : BLOCK // 2] | codes[..., BLOCK // 2 :] << 4
    parts = [scale.astype(np.float16).view(np.uint8), nibbles]
    return np.concatenate(parts, -1).reshape(*rows.shape[:-1], -1)


def decoded(cache: np.ndarray, kind: str) -> np.ndarray:
    size = {"q8_0": 2 + BLOCK, "q4_0": 2 + BLOCK // 2}[kind]
    blocks = cache.reshape(*cache.shape[:-1], -1, size)
    scale, codes = np.ascontiguousarray(blocks[..., :2]).view(np.float16), blocks[..., 2:]
    if kind == "q8_0":
        numbers = codes.view(np.int8).astype(np.float64)
    else:
        numbers = np.concatenate([codes & 15, codes >> 4], -1).astype(np.float64) - 8
    return (numbers * scale.astype(np.float64)).reshape(*cache.shape[:-1], -1)


ENCODE = {"q8_0": q8_0, "q4_0": q4_0}


# ---- Models ----


def step_model(
    rank: int = 4, kind: int = FLOAT, mask: int | None = None, dim: int = DIM, **attributes
) -> onnx.ModelProto:
    """Return a model with three nodes; in rank 3, heads are adjacent."""

    def shape(heads: int, rows: str) -> list[int | str]:
        return ["batch", heads, rows, dim] if rank == 4 else ["batch", rows, heads * dim]

    heads = {} if rank == 4 else {"q_num_heads": HEADS, "kv_num_heads": KV_HEADS}
    nodes = step_nodes(**heads, **attributes)
    inputs = [value("Q", kind, shape(HEADS, "rows"))]
    inputs += [value(x, kind, shape(KV_HEADS, "rows")) for x in "KV"]
    inputs += [value(f"past_{x}", kind, shape(KV_HEADS, "capacity")) for x in "KV"]
    inputs += [value(x, INT64, ["batch"]) for x in ("write_indices", "nonpad")]
    if mask is not None:
        nodes[2].input[3] = "mask"
        inputs.append(value("mask", mask, ["batch", 1, "rows", "keys"]))
    outputs = [value("Y", kind)]
    outputs += [value(f"present_{x}", kind, shape(KV_HEADS, "capacity")) for x in "KV"]
    return make_model(nodes, inputs, outputs)


def node_model() -> onnx.ModelProto:
    """Return a model with one CacheStep, for which the library has kernels."""
    return rewrite(step_model(), "q8_0,q4_0")


def rewrite(model: onnx.ModelProto, formats: str) -> onnx.ModelProto:
    """Rewrite a model.  Raises the command's message."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder, "model.onnx"), Path(folder, "new.onnx")
        before.write_bytes(model.SerializeToString())
        command = [os.environ["KVMILL_COMMAND"], "rewrite", before, "--cache", formats, "-o", after]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            assert done.returncode == 1 and not after.exists(), done
            raise ValueError(done.stderr)
        return onnx.load(after)


def library_session(model: onnx.ModelProto, threads: int = 1):
    options = options_of(threads, math="near")
    options.register_custom_ops_library(os.environ["KVMILL_ORT"])
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


SIDES: dict[str, Callable] = {
    "domain": library_session,
    "provider": partial(provider_session, math="near"),
}


# ---- Steps ----


def packed(array: np.ndarray) -> np.ndarray:
    """Reshape [batch, heads, rows, dim] to [batch, rows, heads * dim]."""
    return np.moveaxis(array, 1, 2).reshape(array.shape[0], array.shape[2], -1)


def random_step(rng: np.random.Generator, dtype: str) -> dict[str, np.ndarray]:
    """Draw a step of rank 4 with caches of numbers.  Half of the steps have other lengths than a
    step must have."""
    batch, rows, spare = (int(n) for n in rng.integers(1, 6, 3))
    capacity = rows + 9 * spare
    shapes = {"Q": (HEADS, rows), "K": (KV_HEADS, rows), "V": (KV_HEADS, rows)}
    shapes |= {"past_K": (KV_HEADS, capacity), "past_V": (KV_HEADS, capacity)}
    arrays = {
        name: rng.standard_normal((batch, *shape, DIM)).astype(dtype)
        for name, shape in shapes.items()
    }
    starts = rng.integers(0, capacity - rows + 1, batch)
    lengths = starts + rows if rng.integers(2) else rng.integers(0, capacity + 1, batch)
    return {**arrays, "write_indices": starts, "nonpad": lengths}


def stored(arrays: dict[str, np.ndarray], x: str, kind: str) -> np.ndarray:
    """Return the present cache of K or V, from the past cache in blocks."""
    present = ENCODE[kind](arrays[f"past_{x}"])
    for b, start in enumerate(arrays["write_indices"]):
        rows = arrays[x][b]
        present[b, :, start : start + rows.shape[1]] = ENCODE[kind](rows)
    return present


def laid_out(arrays: dict[str, np.ndarray], rank: int) -> dict[str, np.ndarray]:
    return {n: packed(a) if rank == 3 and a.ndim == 4 else a for n, a in arrays.items()}


def run_blocks(session, arrays, kinds: tuple[str, str], rank: int) -> dict[str, np.ndarray]:
    """Run a step over its caches in blocks."""
    pairs = zip(("past_K", "past_V"), kinds, strict=True)
    blocks = {name: ENCODE[kind](arrays[name]) for name, kind in pairs}
    return run(session, laid_out(arrays | blocks, rank))


def check_step(session, plain, arrays, kinds: tuple[str, str], rank: int, tolerance: float) -> None:
    layout = packed if rank == 3 else np.asarray
    got = run_blocks(session, arrays, kinds, rank)
    present = [stored(arrays, x, kind) for x, kind in zip("KV", kinds, strict=True)]
    for x, cache in zip("KV", present, strict=True):
        assert np.array_equal(got[f"present_{x}"], layout(cache)), f"other bytes of {x}"
    keys, values = (decoded(*pair) for pair in zip(present, kinds, strict=True))
    want = layout(attend(arrays["Q"], keys, values, arrays["nonpad"]))
    require_close({"Y": got["Y"].astype(np.float64)}, {"Y": want}, tolerance)
    before = run(plain, laid_out(arrays, rank))["Y"].astype(np.float64)
    most = max(DIVERGENCE[kind] for kind in kinds) * max(np.abs(before).max(), 1)
    assert np.abs(got["Y"] - before).max() <= most, "far from the model as it was"


def check_steps(
    open_session: Callable, seed: int, kinds: tuple[str, str], rank: int, dtype: str
) -> None:
    rng = np.random.default_rng([seed, 31, rank])
    kind, tolerance = {"float32": (FLOAT, NEAR), "float16": (FLOAT16, 3e-3)}[dtype]
    model = step_model(rank, kind)
    session, plain = open_session(rewrite(model, ",".join(kinds))), plain_session(model)
    for _ in range(CASES):
        check_step(session, plain, random_step(rng, dtype), kinds, rank, tolerance)


def check_masks(open_session: Callable, seed: int) -> None:
    """Compare with ONNX Runtime over the numbers that the caches hold."""
    rng = np.random.default_rng([seed, 32])
    for kind, cast in (TensorProto.BOOL, np.bool_), (FLOAT, np.float32):
        model = step_model(mask=kind, softcap=3.0)
        session, plain = open_session(rewrite(model, "q8_0")), plain_session(model)
        for _ in range(CASES):
            arrays = random_step(rng, "float32")
            batch, rows = arrays["Q"].shape[0], arrays["Q"].shape[2]
            seen = rng.integers(3, size=(batch, 1, rows, arrays["past_K"].shape[2])) > 0
            seen[..., 0] = True
            arrays["mask"] = seen if cast is np.bool_ else np.where(seen, 0.5, -3).astype(cast)
            past = {f"past_{x}": q8_0(arrays[f"past_{x}"]) for x in "KV"}
            exact = {
                n: decoded(q8_0(arrays[n]), "q8_0").astype(np.float32)
                for n in ("K", "V", "past_K", "past_V")
            }
            got, want = run(session, arrays | past), run(plain, arrays | exact)
            require_close({"Y": got["Y"]}, {"Y": want["Y"]}, NEAR)


def check_in_place(open_session: Callable, seed: int, threads: int) -> None:
    """The caches are both input and output; rows that are not stored keep their bytes."""
    rng = np.random.default_rng([seed, 33])
    session = open_session(rewrite(step_model(), "q8_0"), threads=threads)
    arrays = {n: rng.standard_normal((2, h, 900, DIM), np.float32)
              for n, h in (("past_K", KV_HEADS), ("past_V", KV_HEADS))}
    caches = {n: q8_0(a) for n, a in arrays.items()}
    starts = np.array([0, 870])
    for rows in (5, 1, 1):
        new = {n: rng.standard_normal((2, h, rows, DIM), np.float32)
               for n, h in (("Q", HEADS), ("K", KV_HEADS), ("V", KV_HEADS))}
        new |= {"write_indices": starts, "nonpad": starts + rows}
        want = {x: stored(arrays | new, x, "q8_0") for x in "KV"}
        out = np.full_like(new["Q"], np.nan)
        run_in_place(session, new, caches, out)
        for x in "KV":
            assert np.array_equal(caches[f"past_{x}"], want[x]), f"other bytes of {x}"
            for b, start in enumerate(starts):
                arrays[f"past_{x}"][b, :, start : start + rows] = new[x][b]
        keys, values = (decoded(want[x], "q8_0") for x in "KV")
        require_close({"Y": out}, {"Y": attend(new["Q"], keys, values, starts + rows)}, NEAR)
        starts = starts + rows


# ---- Refusals ----


def check_run_refusals(open_session: Callable, seed: int) -> None:
    """Runs are in place, so that a refused run would show what it had written."""
    rng = np.random.default_rng([seed, 34])
    model = rewrite(step_model(), "q8_0,q4_0")
    for info in (*model.graph.input, *model.graph.output):
        if info.name.endswith("t_V"):  # otherwise the runtime refuses the different number of rows
            info.type.tensor_type.shape.dim[3].dim_param = "bytes"
    session = open_session(model)
    new = {n: rng.standard_normal((2, h, 1, DIM), np.float32)
           for n, h in (("Q", HEADS), ("K", KV_HEADS), ("V", KV_HEADS))}
    numbers = rng.standard_normal((2, KV_HEADS, 16, DIM), np.float32)
    new |= {"write_indices": np.array([3, 15]), "nonpad": np.array([4, 16])}
    for words, changed, caches in (
        ("kvmill: write_indices[1] is 16; accepted: 0 to 15",
         {"write_indices": np.array([3, 16])}, (numbers, numbers)),
        ("kvmill: write_indices[0] is -1; accepted: 0 to 15",
         {"write_indices": np.array([-1, 3])}, (numbers, numbers)),
        ("kvmill: nonpad_kv_seqlen[1] is 17; accepted: 0 to 16",
         {"nonpad": np.array([4, 17])}, (numbers, numbers)),
        ("kvmill: nonpad_kv_seqlen or write_indices has another shape",
         {"nonpad": np.array([4])}, (numbers, numbers)),
        ("kvmill: V has another shape; accepted: Q's batch, and K's rows and heads",
         {"V": new["V"][:1]}, (numbers, numbers)),
        ("kvmill: past_value has another shape", {}, (numbers, numbers[:, :, :15])),
        ("kvmill: cache", {}, (numbers, numbers[..., :BLOCK])),
    ):
        blocks = dict(zip(("past_K", "past_V"), (q8_0(caches[0]), q4_0(caches[1])), strict=True))
        before = {n: a.copy() for n, a in blocks.items()}
        out = np.zeros_like(new["Q"])
        refused(words, partial(run_in_place, session, {**new, **changed}, blocks, out), Exception)
        assert all(np.array_equal(blocks[n], before[n]) for n in before), f"{words}: written"


def with_reader(name: str) -> onnx.ModelProto:
    model = step_model()
    model.graph.node.append(helper.make_node("Identity", [name], ["copy"], "copy"))
    model.graph.output.append(value("copy"))
    return model


def without_output() -> onnx.ModelProto:
    model = step_model()
    del model.graph.output[2]
    return model


def rewrite_tests(tap: Tap) -> None:
    def kept() -> None:
        """Everything except the nodes and the caches' types stays the same."""
        old = step_model()
        new = rewrite(old, "q8_0,q4_0")
        assert [(n.domain, n.op_type) for n in new.graph.node] == [("kvmill", "CacheStep")]
        found = {a.name: helper.get_attribute_value(a) for a in new.graph.node[0].attribute}
        formats = {"key_cache_format": b"q8_0", "value_cache_format": b"q4_0"}
        assert found == {"is_causal": 1, **formats}, found
        for field in ("input", "output"):
            for was, now in zip(getattr(old.graph, field), getattr(new.graph, field), strict=True):
                tensor = now.type.tensor_type
                if now.name[:-1] not in ("past_", "present_"):
                    assert was == now
                    continue
                last = {"K": DIM // BLOCK * 34, "V": DIM // BLOCK * 18}[now.name[-1]]
                assert tensor.elem_type == TensorProto.UINT8, now
                assert tensor.shape.dim[3].dim_value == last, now

    tap.run("kvmill rewrite --cache: a step and its caches change, and nothing else", kept)
    for words, model, formats in (
        ('--cache: "q8"; accepted: one or two of "q8_0"', step_model(), "q8"),
        ('--cache: ""; accepted: one or two of', step_model(), "q8_0,"),
        ("float32, float16 or bfloat16, heads of a known multiple of 32", step_model(dim=48), "q8_0"),
        ("accepted for q8_0: float32, float16 or bfloat16", step_model(kind=11), "q8_0"),
        ("not an input of the model that only this node reads", with_reader("past_V"), "q8_0"),
        ("two linear TensorScatter, and an Attention that alone reads both",
         with_reader("present_K"), "q8_0"),
        ('the cache "present_V" is not an output of the model', without_output(), "q8_0"),
        ("two linear TensorScatter, and an Attention", rewrite(step_model(), "q8_0"), "q8_0"),
    ):
        tap.run(f"kvmill rewrite --cache refuses: {words}",
                partial(refused, words, partial(rewrite, model, formats), ValueError))


def claim_tests(tap: Tap) -> None:
    def check(formats: str, remark: str) -> None:
        model = rewrite(step_model(), formats)
        model.graph.node[0].name = "step"
        got = claims(model, math="near")
        assert got == [f'takes node "step" (CacheStep) as CacheStep{remark}'], got

    tap.run("provider: the log says that it takes a CacheStep", partial(check, "q8_0,q4_0", ""))
    slow = ", in portable code: no pack has fast kernels of its shape: kvmill generate makes them"
    tap.run("provider: and in portable code", partial(check, "q5_1", slow))


# ---- All of them ----


def run_all(tap: Tap, seed: int, *, quick: bool = False) -> None:
    """quick: only the tests that notice planted faults."""
    for name, open_session in SIDES.items():
        for kinds, rank, dtype in (
            (("q8_0", "q4_0"), 4, "float32"),
            (("q4_0", "q8_0"), 3, "float32"),
            (("q8_0", "q8_0"), 4, "float16"),
        ):
            what = f"{name}: {CASES} steps over caches of {','.join(kinds)}, {dtype}, rank {rank}"
            tap.run(what, partial(check_steps, open_session, seed, kinds, rank, dtype))
        tap.run(f"{name}: a step over blocks is refused, and nothing written",
                partial(check_run_refusals, open_session, seed))
        if quick:
            continue
        tap.run(f"{name}: masks and a soft-cap over blocks", partial(check_masks, open_session, seed))
        for threads in (1, 2):
            tap.run(f"{name}: steps over blocks in place, threads: {threads}",
                    partial(check_in_place, open_session, seed, threads))
    if not quick:
        rewrite_tests(tap)
        claim_tests(tap)
