"""Calls of CacheAttend in Python: arrays and tensors of other libraries, and refusals.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax.numpy as jnp
import kvmill
import ml_dtypes
import numpy as np
from kvmill.arrays import as_array
from kvmill.tables import RANGES
from tap import Tap, refused

FEW = {"num_heads": 4, "num_kv_heads": 2, "key_head_dim": 8, "T1": "float32"}


def few_tensors() -> dict:
    rng = np.random.default_rng(3)
    query, key, value = (
        rng.standard_normal(shape).astype(np.float32)
        for shape in ((1, 2, 4, 8), (1, 9, 2, 8), (1, 9, 2, 8))
    )
    return {"query": query, "key": key, "value": value, "lengths": [7]}


def check_results() -> None:
    """A new array, an array of the caller's, and a prepared call give the same bits."""
    plan, tensors = kvmill.CacheAttend(**FEW), few_tensors()
    want, want_lse = plan.run(lse=True, **tensors)
    alone = plan.run(**tensors)
    assert np.abs(alone - want).max() < 1e-6
    output, lse = np.zeros_like(want), np.zeros_like(want_lse)
    got = plan.run(attn_output=output, lse=lse, **tensors)
    assert got[0] is output and got[1] is lse
    assert output.tobytes() == want.tobytes() and lse.tobytes() == want_lse.tobytes()
    plan.prepare(attn_output=output, **tensors).run()
    assert output.tobytes() == alone.tobytes()
    assert "CacheAttend" in plan.describe() and plan.workspace_size > 0


class Wrapped:
    """An array of another library, of which NumPy gets a view or a copy."""

    def __init__(self, array: np.ndarray, copied: bool) -> None:
        self.array, self.copied = array, copied

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        return self.array.copy() if self.copied else self.array


class Tensor:
    """A tensor like PyTorch's in bfloat16: NumPy cannot read it, but it supports DLPack."""

    def __init__(self, array: object, device: int = 1) -> None:
        self.array, self.device = array, device

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError("Got unsupported ScalarType BFloat16")

    def __dlpack__(self) -> object:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


class OnGpu:
    """An array like CuPy's, which NumPy cannot read; its class has the name of CuPy's."""

    __module__, __qualname__ = "cupy", "ndarray"

    def __dlpack__(self) -> object:
        raise BufferError("not on the CPU")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


def check_dlpack() -> None:
    """Tensors of a type that NumPy lacks are read and written without a copy."""
    plan = kvmill.CacheAttend(**FEW | {"T1": "bfloat16"})
    tensors = {
        name: given.astype(ml_dtypes.bfloat16) if isinstance(given, np.ndarray) else given
        for name, given in few_tensors().items()
    }
    want = plan.run(**tensors)
    theirs = {name: jnp.asarray(tensors[name]) for name in ("query", "key", "value")}
    others = tensors | {name: Tensor(array) for name, array in theirs.items()}
    for _ in range(3):
        got = plan.run(**others)
        assert got.dtype == ml_dtypes.bfloat16 and got.tobytes() == want.tobytes()
    turned = Tensor(jnp.asarray(np.zeros((1, 2, 4, 8), ml_dtypes.bfloat16)))
    plan.run(attn_output=turned, **tensors)
    assert np.asarray(turned.array).tobytes() == want.tobytes()
    shared = as_array(Tensor(theirs["key"]))
    address = theirs["key"].unsafe_buffer_pointer()
    assert shared.ctypes.data == address and shared.shape == (1, 9, 2, 8)
    del theirs, others
    gc.collect()
    assert shared.tobytes() == tensors["key"].tobytes()
    gpu = Tensor(turned.array, device=2)
    refused("DLPack device 2", lambda: plan.run(**tensors | {"query": gpu}), TypeError)
    named = "query is a cupy.ndarray on DLPack device 2 (CUDA); accepted: 1, the CPU"
    refused(named, lambda: plan.run(**tensors | {"query": OnGpu()}), TypeError)
    small = kvmill.CacheAttend(**FEW | {"T1": "float16"})
    wrong = partial(small.run, **tensors | {"query": turned})
    refused("query has type bfloat16", wrong, kvmill.KvmillError)


def check_runs() -> None:
    """Runs of one plan on arrays of different layouts allocate no new workspaces, and keep no
    references."""
    plan, tensors = kvmill.CacheAttend(**FEW), few_tensors()
    want = plan.run(**tensors).tobytes()
    wide = np.zeros((1, 9, 4, 8), np.float32)
    wide[:, :, ::2] = tensors["key"]
    heads_first = np.ascontiguousarray(wide.swapaxes(1, 2)).swapaxes(1, 2)
    for key in (tensors["key"], wide[:, :, ::2], tensors["key"].copy(), heads_first[:, :, ::2]):
        assert plan.run(**tensors | {"key": key}).tobytes() == want
    frozen = tensors["key"].copy()
    frozen.flags.writeable = False
    for lengths in ([7], np.array([7], np.int32), np.array([7])):
        assert plan.run(**tensors | {"key": frozen, "lengths": lengths}).tobytes() == want
    bad = {"key has shape": wide[..., :7], "query has type float64": wide.astype(float)}
    for words, array in bad.items():
        changed = tensors | {words.split()[0]: array}
        refused(words, partial(plan.run, **changed), kvmill.KvmillError)
    assert plan.run(**tensors).tobytes() == want
    tracemalloc.start()
    plan.run(**tensors)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < plan.workspace_size, peak
    with ThreadPoolExecutor(4) as executor:
        runs = [executor.submit(plan.run, **tensors) for _ in range(64)]
        assert all(run.result().tobytes() == want for run in runs)
    left = [weakref.ref(frozen), weakref.ref(plan)]
    del frozen, plan, runs, executor
    assert [ref() for ref in left] == [None, None]


def check_written() -> None:
    """An output is written to the caller's memory, or is refused."""
    plan, tensors = kvmill.CacheAttend(**FEW), few_tensors()
    want, output = plan.run(**tensors), np.zeros((1, 2, 4, 8), np.float32)
    got = plan.run(attn_output=Wrapped(output, copied=False), **tensors)
    assert got.tobytes() == output.tobytes() == want.tobytes()
    output[:] = 0
    for how in (plan.run, plan.prepare):
        copied = partial(how, attn_output=Wrapped(output, copied=True), **tensors)
        refused("attn_output is a Wrapped, of which NumPy gets a copy", copied, ValueError)
        refused("attn_output is a list", partial(how, attn_output=[0.0], **tensors), TypeError)
    output.flags.writeable = False
    refused("read-only", partial(plan.run, attn_output=output, **tensors), ValueError)
    assert not output.any()


def check_raw_bits() -> None:
    """Arrays of ml_dtypes give the same results as integer arrays with the same bits."""
    tensors = few_tensors()
    plan = kvmill.CacheAttend(**FEW | {"T1": "bfloat16", "key_T2": "float8e4m3fn"})
    own = {
        "query": tensors["query"].astype(ml_dtypes.bfloat16),
        "key": tensors["key"].astype(ml_dtypes.float8_e4m3fn),
        "value": tensors["value"].astype(ml_dtypes.float8_e4m3fn),
        "lengths": [7],
    }
    bits = {"query": np.uint16, "key": np.uint8, "value": np.uint8}
    raw = own | {name: own[name].view(kind) for name, kind in bits.items()}
    want, got = plan.run(**own), plan.run(**raw)
    assert want.dtype == ml_dtypes.bfloat16 and got.dtype == np.uint16
    assert want.tobytes() == got.tobytes()


def check_ranges() -> None:
    """The text of the library's refusal, for every attribute with a limited range."""
    for name, least, most in RANGES["CacheAttend"]:
        accepted = f"{least} or more" if most == 2**63 - 1 else f"{least} to {most}"
        for value in (least - 1, most + 1):
            if value >= 2**63:
                continue
            words = f"KVMILL_E_ATTRIBUTE: {name} is {value}; accepted: {accepted}"
            given = FEW | {name: value}
            refused(words, partial(kvmill.CacheAttend, **given), kvmill.KvmillError)


def check_refusals() -> None:
    plan, tensors = kvmill.CacheAttend(**FEW), few_tensors()

    def run(**changes: object) -> Callable[[], object]:
        return lambda: plan.run(**tensors | changes)

    failed = kvmill.KvmillError
    for name, words in (("libmissing.so", "No such file"), ("missing.so", "No such file")):
        refused(words, partial(kvmill.Pack, name), FileNotFoundError)
    refused("accepted: a path of the form", partial(kvmill.Pack, __file__), ValueError)
    refused("query is NULL", lambda: plan.prepare().run(), failed)
    refused("key has type float64", run(key=tensors["key"].astype(np.float64)), failed)
    refused("value has shape [1, 9, 2, 7]", run(value=tensors["value"][..., :7]), failed)
    refused("KVMILL_E_", run(lengths=None), failed)
    refused("KVMILL_E_INDEX", run(lengths=[10]), failed)
    refused("KVMILL_E_", run(slots=[1], slot_starts=[0, 1]), failed)
    refused("attn_mask", run(attn_mask=np.zeros(9, np.float32)), failed)
    refused("softcap is -1", lambda: kvmill.CacheAttend(**FEW, softcap=-1.0), failed)
    refused("math is \"slow\"", lambda: kvmill.CacheAttend(**FEW, math="slow"), failed)
    refused("head_dim", lambda: kvmill.CacheAttend(**FEW, head_dim=8), TypeError)
    refused("cache is not a tensor of this plan; accepted: query, ", run(cache=tensors["key"]), TypeError)
    refused("key_T2 is 'float5'; accepted: float32, ", lambda: kvmill.CacheAttend(**FEW, key_T2="float5"), TypeError)
    codes = kvmill.CacheAttend(**FEW, key_quant_bit=4, key_quant_group=8)
    apart = tensors | {"key": tensors["key"].astype(ml_dtypes.int4)}
    refused("accepted for int4: uint8", lambda: codes.run(**apart), TypeError)
    output = np.full((1, 2, 4, 8), 5, np.float32)
    refused("KVMILL_E_INDEX", run(lengths=[10], attn_output=output), failed)
    assert (output == 5).all(), "what was refused has written"
    output.flags.writeable = False
    refused("attn_output is read-only", run(attn_output=output), ValueError)


def run(tap: Tap) -> None:
    tap.run("CacheAttend's results", check_results)
    tap.run("CacheAttend's runs, one after the other and at a time", check_runs)
    tap.run("what CacheAttend writes", check_written)
    tap.run("CacheAttend on tensors of others", check_dlpack)
    tap.run("CacheAttend on raw bits", check_raw_bits)
    tap.run("CacheAttend's ranges are refused in the library's words", check_ranges)
    tap.run("CacheAttend refuses", check_refusals)
