"""Conformance of kvmill to the sources of its ops.  Prints TAP.  Environment:

    KVMILL_LIBRARY  the library to test (the binding)
    KVMILL_PACKS    packs to use, paths separated by colons
    KVMILL_COMMAND  the command `kvmill`
    KVMILL_ONNX     "no": it was built without protobuf-c and reads no ONNX models
    KVMILL_SEED     seed of the random cases; default 24
    KVMILL_TURN     the day, whose half of the tests is run; or all

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial

import bytecode
import cache_attend
import cache_attend_calls
import compressed
import ffi
import flow_rules
import flows
import indexers
import gather
import jax_attention
import jax_windows
import kvmill
import model_configs
import onnx_attention
import onnx_backend
import onnx_models
import pmx
import pmx_models
import pools
import scatter
import vflows
import whole_programs
from tap import Tap


def load_packs() -> tuple[kvmill.Pack, ...]:
    paths = os.environ.get("KVMILL_PACKS", "").split(":")
    return tuple(kvmill.Pack(path) for path in paths if path)


def tests(tap: Tap, packs: tuple[kvmill.Pack, ...], seed: int, command: str) -> list[Callable[[], None]]:
    """Return what can be run, in an order in which neighbours are about different things."""
    reads_onnx = os.environ.get("KVMILL_ONNX", "yes") == "yes"
    return [
        partial(onnx_backend.run, tap, packs, seed),
        partial(onnx_attention.run, tap, packs, seed),
        *([partial(onnx_models.run, tap, command, seed), partial(pmx_models.run, tap, command, seed)] if reads_onnx else []),
        partial(pmx.run_all, tap, packs, seed),
        partial(cache_attend.run, tap, packs, seed),
        partial(gather.run, tap, packs, seed),
        partial(scatter.run, tap, packs, seed),
        partial(flows.run, tap, command, packs, seed),
        partial(vflows.run, tap, seed),
        partial(jax_windows.run, tap, command, packs, seed),
        partial(whole_programs.run, tap, command),
        partial(jax_attention.run, tap, packs, seed),
        partial(ffi.run, tap, command, seed),
        partial(flow_rules.run, tap, packs, seed),
        partial(indexers.run, tap, seed),
        partial(pools.run, tap, packs, seed),
        partial(compressed.run, tap, seed),
        partial(cache_attend_calls.run, tap),
        partial(bytecode.run, tap, command),
        partial(model_configs.run, tap, command),
    ]


def todays(runs: list[Callable[[], None]]) -> list[Callable[[], None]]:
    """Return every second one, by the day; KVMILL_TURN sets the day, or all."""
    turn = os.environ.get("KVMILL_TURN") or str(int(time.time()) // 86400)
    return runs if turn == "all" else runs[int(turn) % 2 :: 2]


def main() -> int:
    tap = Tap()
    packs = load_packs()
    seed = int(os.environ.get("KVMILL_SEED", "24"))
    tap.comment(f"kvmill {kvmill.version()}, seed {seed}")
    tap.comment(
        "packs: " + (", ".join(f"{p.name} ({p.kernel_count} kernels)" for p in packs) or "none")
    )
    for run in todays(tests(tap, packs, seed, os.environ["KVMILL_COMMAND"])):
        run()
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
