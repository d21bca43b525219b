"""Conformance of kvmill to the sources of its ops.  Prints TAP.  Environment:

    KVMILL_LIBRARY  the library to test (the binding)
    KVMILL_PACKS    packs to use, paths separated by colons
    KVMILL_COMMAND  the command `kvmill`
    KVMILL_ONNX     "no": it was built without protobuf-c and reads no ONNX models
    KVMILL_SEED     seed of the random cases; default 24

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import sys

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


def main() -> int:
    tap = Tap()
    packs = load_packs()
    seed = int(os.environ.get("KVMILL_SEED", "24"))
    tap.comment(f"kvmill {kvmill.version()}, seed {seed}")
    tap.comment(
        "packs: " + (", ".join(f"{p.name} ({p.kernel_count} kernels)" for p in packs) or "none")
    )
    model_configs.run(tap, os.environ["KVMILL_COMMAND"])
    onnx_backend.run(tap, packs, seed)
    if os.environ.get("KVMILL_ONNX", "yes") == "yes":
        onnx_models.run(tap, os.environ["KVMILL_COMMAND"], seed)
        pmx_models.run(tap, os.environ["KVMILL_COMMAND"], seed)
    onnx_attention.run(tap, packs, seed)
    pmx.run_all(tap, packs, seed)
    cache_attend.run(tap, packs, seed)
    cache_attend_calls.run(tap)
    gather.run(tap, packs, seed)
    scatter.run(tap, packs, seed)
    pools.run(tap, packs, seed)
    jax_windows.run(tap, os.environ["KVMILL_COMMAND"], packs, seed)
    bytecode.run(tap, os.environ["KVMILL_COMMAND"])
    whole_programs.run(tap, os.environ["KVMILL_COMMAND"])
    flows.run(tap, os.environ["KVMILL_COMMAND"], packs, seed)
    flow_rules.run(tap, packs, seed)
    indexers.run(tap, seed)
    compressed.run(tap, seed)
    vflows.run(tap, seed)
    jax_attention.run(tap, packs, seed)
    ffi.run(tap, os.environ["KVMILL_COMMAND"], seed)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
