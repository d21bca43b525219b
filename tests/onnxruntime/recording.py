"""Runs custom ops in this runtime, and records the runs for older.py, which repeats them in an older one.

    python recording.py DIRECTORY      the environment is that of main.py

Each run is a file DIRECTORY/NUMBER.npz with its test, its model as `kvmill rewrite` wrote it, its inputs, and its
outputs or the message.  The tests check that the outputs are right.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import cache_group_query
import cache_step
import main
import numpy as np
import onnx
import pmx_nodes
import steps
from models import decoder, decoder_arrays, rewritten, run
from onnx.version_converter import convert_version
from tap import Tap, refused

IR_VERSION, OPSET = 10, 21  # the newest that ONNX Runtime 1.20 supports
numbers = count()


def older(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model as the oldest runtime can read it, with every ONNX node that kvmill knows in
    kvmill's domain."""
    domains = {node.domain for node in model.graph.node}
    if not domains & {"", "kvmill"}:  # a model of PMX's
        return model
    new = onnx.load_from_string(rewritten(model)) if "" in domains else model
    return convert_version(new, OPSET)


class Recorder:
    """A session that records its runs."""

    def __init__(
        self, directory: Path, test: str, model: onnx.ModelProto, threads: int = 1
    ) -> None:
        self.directory, self.test, self.threads = directory, test, threads
        new = older(model)
        new.ir_version = IR_VERSION
        self.session = pmx_nodes.library_session(os.environ["KVMILL_ORT"], new, threads)
        self.model = np.frombuffer(new.SerializeToString(), np.uint8)

    def get_inputs(self) -> list:
        return self.session.get_inputs()

    def get_outputs(self) -> list:
        return self.session.get_outputs()

    def _keep(self, inputs: dict[str, np.ndarray], **results: np.ndarray) -> None:
        np.savez(
            self.directory / f"{next(numbers):04}.npz",
            test=self.test,
            threads=self.threads,
            model=self.model,
            **{f"in:{name}": array for name, array in inputs.items()},
            **results,
        )

    def run(self, names: list[str] | None, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        names = names or [output.name for output in self.get_outputs()]
        given = {name: array.copy() for name, array in inputs.items()}
        try:
            outputs = self.session.run(names, inputs)
        except Exception as error:
            message = str(error)
            self._keep(given, words=message[message.index("kvmill: ") :])
            raise
        after = {f"after:{name}": array for name, array in inputs.items()}
        self._keep(given, **{f"out:{n}": a for n, a in zip(names, outputs, strict=True)}, **after)
        return outputs


def all_runs(tap: Tap, seed: int, recorder: Callable[[str], Callable]) -> None:
    for op in main.LEAST:
        what = f"the published node tests of {op}"
        main.node_tests(tap, op, "recorded", recorder(what))
    main.attention_tests(tap, seed, "recorded", recorder("random Attention nodes"))
    main.scatter_tests(tap, seed, "recorded", recorder("random TensorScatter nodes"))
    steps.step_tests(tap, seed, "recorded", recorder("steps"))

    def threads() -> None:
        session = recorder("two threads")(steps.step_model(8, 2, 64), threads=2)
        for number in (1, 2):
            rng = np.random.default_rng([seed, number])
            steps.check_step(session, steps.step_arrays(rng, 2, number, 900))

    def layers() -> None:
        arrays = decoder_arrays(np.random.default_rng([seed, 6]), 3, 40)
        starts = np.array([0, 3, 30])
        arrays["hidden"] = np.ones((3, 1, 512), np.float32)
        arrays |= {"write_indices": starts, "nonpad": starts + 1}
        run(recorder("a decoder of two layers")(decoder()), arrays)

    def after_last() -> None:
        arrays = steps.step_arrays(np.random.default_rng(seed), 1, 1, 16)
        arrays |= {"write_indices": np.array([16]), "nonpad": np.array([17])}
        session = recorder("refusals")(steps.step_model(8, 2, 64))
        refused("kvmill: ", lambda: run(session, arrays), Exception)

    def pmx() -> None:
        for op in ("MultiHeadCacheAttention", "KeyValueCache"):
            model = pmx_nodes.node_model(op)
            run(recorder("PMX's nodes, caches in place")(model), pmx_nodes.node_arrays(model, 4))

    for test in (threads, layers, after_last, pmx):
        tap.run(f"recorded: {test.__name__}", test)


def block_runs(tap: Tap, seed: int, recorder: Callable[[str], Callable]) -> None:
    """Record runs over caches in blocks of llama.cpp."""

    def step_runs() -> None:
        rng = np.random.default_rng([seed, 7])
        for rank, kinds in ((4, ("q8_0", "q4_0")), (3, ("q4_0", "q8_0"))):
            model = cache_step.rewrite(cache_step.step_model(rank), ",".join(kinds))
            session = recorder("steps over caches in blocks")(model)
            for _ in range(4):
                cache_step.run_blocks(session, cache_step.random_step(rng, "float32"), kinds, rank)

    def group_query_runs() -> None:
        rng = np.random.default_rng([seed, 8])
        record_model = recorder("GroupQueryAttention over caches in blocks")
        for dtype in ("float32", "float16"):
            for _ in range(6):
                case = cache_group_query.blocks_case(rng, dtype, 64)
                session = record_model(cache_group_query.rewrite_case(case))
                cache_group_query.results(session, cache_group_query.in_blocks(case))

    tap.run("recorded: steps over blocks", step_runs)
    tap.run("recorded: GroupQueryAttention over blocks", group_query_runs)


def record() -> int:
    tap, directory, seed = Tap(), Path(sys.argv[1]), int(os.environ.get("KVMILL_SEED", "24"))
    directory.mkdir()
    recorder = partial(partial, Recorder, directory)
    all_runs(tap, seed, recorder)
    block_runs(tap, seed, recorder)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(record())
