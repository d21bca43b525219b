"""Uses an installed wheel in ONNX Runtime, with lines of the guide, in a directory with model.onnx.

    python ort.py prepare GUIDE       the lines of the guide's section "In Python"
    python ort.py register GUIDE      those of "The provider", with ./libkvmill_ort.so
    python ort.py refused             what prepare() refuses

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from kvmill.onnxruntime import NAME, Provider, prepare

MODEL = "model.onnx"


def lines_of(guide: str, heading: str) -> str:
    """Return the first Python block after a heading."""
    section = Path(guide).read_text().split(f"\n## {heading}\n")[1]
    return section.split("\n```python\n")[1].split("\n```\n")[0]


def inputs() -> dict[str, np.ndarray]:
    """A step over 12 cached tokens, for the model of wheel.test."""
    rng = np.random.default_rng(3)
    arrays = {"q": (1, 1, 512), "k": (1, 1, 128), "v": (1, 1, 128), "pk": (1, 2, 40, 64), "pv": (1, 2, 40, 64)}
    given = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in arrays.items()}
    return given | {"l": np.array([12], np.int32), "t": np.array(40, np.int32)}


def check(session: onnxruntime.InferenceSession) -> None:
    """Compare a session with the CPU provider."""
    assert NAME in session.get_providers(), session.get_providers()
    plain = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    for got, want in zip(session.run(None, inputs()), plain.run(None, inputs()), strict=True):
        np.testing.assert_allclose(got, want, atol=2e-5)


def strict(provider: Provider) -> onnxruntime.InferenceSession:
    """Open a session that fails unless kvmill has all nodes."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    return onnxruntime.InferenceSession(MODEL, provider.session_options(options))


def prepared(guide: str) -> None:
    space: dict = {}
    exec(lines_of(guide, "In Python"), space)
    check(space["session"])
    provider = space["provider"]
    check(strict(provider))
    assert provider.notes == (f"{MODEL}: note: ONNX Runtime hands over: 1 com.microsoft.GroupQueryAttention",)
    begin = time.perf_counter()
    again = prepare(Path(MODEL).read_bytes())
    assert again.pack == provider.pack and again.library == provider.library, again
    assert time.perf_counter() - begin < 5, "made twice"
    without = Provider(provider.library, None)  # its session makes the kernels
    check(strict(without))


def registered(guide: str) -> None:
    lines = lines_of(guide, "The provider").replace("/path/to/", f"{Path.cwd()}/")
    space: dict = {}
    exec(lines, space)
    check(space["session"])


def refused() -> None:
    def expect(kind: type[Exception], words: str, call: Callable[[], object]) -> None:
        try:
            call()
        except kind as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"nothing was refused; expected {words}")

    expect(ValueError, "math is 'quick'; accepted: f32, near, fast", lambda: prepare(MODEL, math="quick"))
    expect(ValueError, "model is 'model'; accepted: a name that ends with .onnx", lambda: prepare("model"))
    expect(TypeError, "model is int; accepted: a path, bytes or an onnx.ModelProto", lambda: prepare(5))
    expect(ValueError, "lost.onnx: cannot read: No such file", lambda: prepare("lost.onnx"))
    expect(ValueError, "damaged or cut off, or no ONNX model", lambda: prepare(b"no model"))
    expect(ValueError, "left to ONNX Runtime: node 0 (com.microsoft.GroupQueryAttention): q_norm_weight",
           lambda: prepare("norms.onnx"))
    open_model = prepare("open.onnx")
    assert open_model.pack is None and "the model says too little" in open_model.notes[0], open_model


if __name__ == "__main__":
    {"prepare": prepared, "register": registered, "refused": refused}[sys.argv[1]](*sys.argv[2:])
