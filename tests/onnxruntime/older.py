"""Repeats what recording.py has recorded in an older ONNX Runtime: results have the same bits.  Prints TAP.

    python older.py DIRECTORY      KVMILL_ORT: libkvmill_ort.so

Needs only NumPy and onnxruntime.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime
from tap import Tap, refused

Arrays = dict[str, np.ndarray]
IN_PLACE = ("steps", "steps over caches in blocks", "two threads")  # repeated in place


def part(file: np.lib.npyio.NpzFile, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): file[name] for name in file.files if name.startswith(prefix)}


def open_session(file: np.lib.npyio.NpzFile) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = int(file["threads"])
    options.register_custom_ops_library(os.environ["KVMILL_ORT"])
    model, providers = file["model"].tobytes(), ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(model, options, providers=providers)


def in_place(session: onnxruntime.InferenceSession, inputs: Arrays) -> Arrays:
    """Return inputs and outputs with each present_... in the memory of past_..., if that exists
    with the same shape."""
    binding, outputs = session.io_binding(), {}
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
        present = name.replace("past", "present")
        if present != name:
            outputs[present] = array
            binding.bind_output(present, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    others = [o.name for o in session.get_outputs() if o.name not in outputs]
    for name in others:
        binding.bind_output(name)
    session.run_with_iobinding(binding)
    got = binding.copy_outputs_to_cpu()[len(outputs) :]
    return dict(zip(others, got, strict=True)) | outputs


def same(got: Arrays, want: Arrays) -> None:
    for name, array in want.items():
        have = got[name]
        assert have.dtype == array.dtype and have.shape == array.shape, f"{name}: {have.shape}"
        if "hidden" in want or "hidden1" in want:  # the runtime computes matrix products
            np.testing.assert_allclose(have, array, 1e-4, 1e-4, err_msg=name)
        else:
            assert have.tobytes() == array.tobytes(), f"{name}: other bits"


def check(path: Path) -> None:
    with np.load(path) as file:
        session, inputs = open_session(file), part(file, "in:")
        names = [output.name for output in session.get_outputs()]
        if "words" in file.files:
            refused(str(file["words"]), lambda: session.run(names, inputs), Exception)
            return
        want, given = part(file, "out:"), {n: a.copy() for n, a in inputs.items()}
        same(dict(zip(names, session.run(names, given), strict=True)), want)
        same(given, part(file, "after:"))
        if str(file["test"]) in IN_PLACE and "past_K" in inputs:
            same(in_place(session, inputs), want)


def check_all(paths: list[Path]) -> None:
    for path in paths:
        try:
            check(path)
        except Exception as error:
            raise AssertionError(path.name) from error


def main() -> int:
    tap, runs = Tap(), defaultdict(list)
    tap.comment(f"ONNX Runtime {onnxruntime.__version__}")
    for path in sorted(Path(sys.argv[1]).glob("*.npz")):
        with np.load(path) as file:
            runs[str(file["test"])].append(path)
    for test, paths in runs.items():
        tap.run(f"an older runtime: {test}", partial(check_all, paths))
        tap.comment(f"{len(paths)} runs")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
