"""The ONNX project's node tests, run by kvmill, as TAP lines.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import importlib
import pkgutil
import unittest
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test import BackendTest, loader
from onnx.backend.test.case import node as node_cases
from tap import Tap

Run = Callable[[Sequence[np.ndarray]], tuple[np.ndarray, ...]]


def bits_of(array: np.ndarray) -> np.ndarray:
    """Return the bits that a copy must preserve: in an unpacked 4-bit element, only the low
    half."""
    if array.dtype.hasobject:
        return array
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    is_nibble = array.dtype.name in ("int4", "uint4", "float4_e2m1fn")
    return data & 0x0F if is_nibble else data


def assert_same_bits(got: np.ndarray, want: np.ndarray, what: str) -> None:
    assert got.dtype == want.dtype, f"{what}: type {got.dtype}, not {want.dtype}"
    assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
    assert np.array_equal(bits_of(got), bits_of(want)), f"{what}:\n{got}\nnot\n{want}"


# ---- The backend ----


class Rep(BackendRep):
    def __init__(self, run: Run) -> None:
        self._run = run

    def run(self, inputs: Sequence[np.ndarray], **_: Any) -> tuple[np.ndarray, ...]:
        return self._run(inputs)


def backend_of(
    ops: Sequence[str], make: Callable[[onnx.ModelProto], Run], single: bool = True
) -> type[Backend]:
    """Return an ONNX backend for models of these ops, with one node or any number."""

    class KvmillBackend(Backend):
        @classmethod
        def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **_: Any) -> bool:
            nodes = model.graph.node
            known = all(node.op_type in ops for node in nodes)
            return device == "CPU" and known and (not single or len(nodes) == 1)

        @classmethod
        def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **_: Any) -> Rep:
            super().prepare(model, device)
            return Rep(make(model))

        @classmethod
        def supports_device(cls, device: str) -> bool:
            return device == "CPU"

    return KvmillBackend


# ---- The tests ----


def import_ours(package: ModuleType) -> None:
    """Import only the modules of ops that kvmill has, because importing a module creates the data
    of its tests."""
    for _, name, _ in pkgutil.iter_modules(package.__path__):
        if any(word in name for word in ("attention", "gather", "scatter")):
            importlib.import_module(f"{package.__name__}.{name}")


loader.import_recursive = node_cases.import_recursive = import_ours


class BitExactTest(BackendTest):
    """The project's runner, without a tolerance, which an op that copies does not need."""

    @classmethod
    def assert_similar_outputs(
        cls, ref_outputs: Sequence[Any], outputs: Sequence[Any], *args: Any, **kwargs: Any
    ) -> None:
        super().assert_similar_outputs(ref_outputs, outputs, *args, **kwargs)
        for got, want in zip(outputs, ref_outputs, strict=True):
            assert_same_bits(got, want, "output")


class NodeTestResult(unittest.TestResult):
    """Writes TAP lines, except for tests that the include pattern excludes."""

    def __init__(self, tap: Tap, kernels: str) -> None:
        super().__init__()
        self._tap, self._kernels = tap, kernels
        self.passed: set[str] = set()

    def _report(self, test: unittest.TestCase, details: str) -> None:
        name = test.id().rsplit(".", 1)[-1]
        self._tap.result(not details, f"{name} ({self._kernels})", details)

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self.passed.add(test.id().rsplit(".", 1)[-1].removesuffix("_cpu"))
        self._report(test, "")

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self._report(test, self.failures[-1][1])

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self._report(test, self.errors[-1][1])


def run_node_tests(
    tap: Tap, backend: type[Backend], runner: type[BackendTest], pattern: str, kernels: str
) -> set[str]:
    """Run the project's node tests that match the pattern.  Returns the names of those that
    passed."""
    tests = runner(backend, __name__).include(pattern)
    result = NodeTestResult(tap, kernels)
    tests.test_suite.run(result)
    return result.passed
