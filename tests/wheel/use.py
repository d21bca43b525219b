"""Uses an installed wheel as a newcomer would.  The argument names one of the functions below.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import importlib.metadata
import re
import resource
import subprocess
import sys
import time
import typing
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import kvmill
import kvmill.vflow
import numpy as np
from kvmill.__main__ import find_command
from kvmill.arrays import address_of


def names() -> None:
    """The package has the names that it lists for users and for type checkers."""
    for name in kvmill.__all__:
        assert callable(getattr(kvmill, name)), name
    source = Path(kvmill.__file__).read_text()
    imported = source[source.index("if TYPE_CHECKING:") : source.index("_NAMES =")]
    assert all(name in imported for name in kvmill.__all__)
    assert set(kvmill.__all__) <= set(dir(kvmill))
    assert kvmill.version() == importlib.metadata.version("kvmill")
    assert (Path(kvmill.__file__).parent / "py.typed").exists()


def import_time() -> None:
    """Return the processor time that the import adds to Python's start, in seconds: the least of
    several runs."""

    def seconds(program: str) -> float:
        def used() -> float:
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            return usage.ru_utime + usage.ru_stime

        before = used()
        subprocess.run([sys.executable, "-c", program], check=True)
        return used() - before

    runs = [(seconds("pass"), seconds("import kvmill")) for _ in range(5)]
    extra = min(run[1] for run in runs) - min(run[0] for run in runs)
    print(f"import kvmill: {1000 * extra:.0f} ms of processor time")
    assert extra < 0.06


def added_by_run() -> None:
    """Print the processor time that a run adds to its kernels, in microseconds: the least of several
    rounds."""
    query, rows = np.ones((1, 1, 8, 64), np.float32), np.ones((1, 16, 2, 64), np.float32)
    tensors = {"query": query, "key": rows, "value": rows, "lengths": np.array([16])}
    plan = kvmill.CacheAttend(num_heads=8, num_kv_heads=2, key_head_dim=64, T1="float32", portable="allow")
    call = plan.prepare(attn_output=np.empty_like(query), **tensors)

    def least(run: Callable[[], object], times: int = 50) -> float:
        rounds = []
        for _ in range(40):
            begin = time.thread_time_ns()
            for _ in range(times):
                run()
            rounds.append((time.thread_time_ns() - begin) / 1000 / times)
        return min(rounds)

    print(least(lambda: plan.run(**tensors)) - least(call.run))


def run_time() -> None:
    """Measure added_by_run in several processes, which differ by where their memory is, and take the
    least."""
    program = [sys.executable, __file__, "added_by_run"]
    extra = min(float(subprocess.run(program, check=True, capture_output=True).stdout) for _ in range(8))
    print(f"a run adds {extra:.1f} us of processor time to its kernels")
    assert extra < 15


def command() -> None:
    """The package's own command is used, whatever is in PATH."""
    assert find_command() == str(Path(kvmill.__file__).parent / "installed/bin/kvmill")


def default_pack() -> None:
    """The wheel's default pack is used without being named."""
    pack = kvmill.default_pack()
    assert pack is not None and pack.kernel_count > 0
    assert len(pack.symbols) == pack.kernel_count
    stores = r"kvmill_store_rows_u8_h(\d+)_mn_s(\d+)_d(\d+)_linear__"
    heads, rows, bytes_of_row = map(int, re.search(stores, "\n".join(pack.symbols)).groups())
    past = np.zeros((2, heads, 40, bytes_of_row), np.uint8)
    update = np.ones((2, heads, rows, bytes_of_row), np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = kvmill.TensorScatter(past, update)
        plan.run(past, update, present=past)
    try:
        plan.run(None, update)
    except TypeError as error:
        assert str(error) == "past is None; accepted: an array", error
    else:
        raise AssertionError("it was not refused")
    print(f"{pack.kernel_count} kernels: {plan.describe()}")
    assert "pack kvmill_default" in plan.describe() and "portable" not in plan.describe()
    assert (past[:, :, :rows] == 1).all() and (past[:, :, rows:] == 0).all()


def addresses() -> None:
    """Addresses of all kinds of arrays are those of NumPy's interface."""
    plain, bytes_of = np.zeros((4, 6)), np.zeros(8, np.uint8)
    read_only = plain.copy()
    read_only.flags.writeable = False
    structured = np.zeros(3, [("a", np.int32), ("b", np.float64)])
    for array in (plain, plain.T, plain[1:, ::2], plain[:0], bytes_of[3:], read_only, read_only[2:], structured):
        expected = array.__array_interface__["data"][0]
        assert address_of(array) == expected, (array.dtype, array.shape)


def texts() -> None:
    """Flows and regions are read by the wheel's own library."""
    attention = {"num_heads": 4, "num_kv_heads": 2, "head_dim": 8, "page_size": 4, "T1": "float32"}
    flow = kvmill.Flow({"op": "flow", "attention": attention, "select": {"topk_val": "all"}})
    assert flow.count([9, 1]).tolist() == [0, 3, 6, 7, 8]
    maps = Path("/proc/self/maps").read_text()
    own = re.findall(r"\S*libkvmill_specs\S*", maps)
    assert own and all(str(Path(kvmill.__file__).parent) in path for path in own), own
    assert "libjansson" in maps
    for given in ([1], 5, None, b"flow.json"):
        try:
            kvmill.Flow(given)
        except TypeError as error:
            assert f"source is {given!r}; accepted: " in str(error), error
        else:
            raise AssertionError("it was not refused")
    try:
        kvmill.Flow({"op": "flow", "attention": {}})
    except kvmill.KvmillError as error:
        assert error.status_name == "KVMILL_E_ATTRIBUTE" and "/attention/" in error.message
    else:
        raise AssertionError("it was not refused")
    region = """^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>"""
    inputs, indices, updates = np.zeros(3, np.float32), np.array([[1]], np.int32), np.ones(1, np.float32)
    numbers = {"inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0], "index_vector_dim": 1}
    plan = kvmill.Scatter(inputs, indices, updates, region=region, portable="allow", **numbers)
    assert plan.run(inputs, indices, updates).tolist() == [0, 1, 0]


def classes() -> None:
    """The wheel's own vFlow classes are flows, for the module and for the command; there is no torch."""
    examples = Path(kvmill.__file__).parent / "installed/share/kvmill/examples/vflow"
    flow = kvmill.vflow.load(f"{examples}/quest.py:gqa_quest", num_heads=8, num_kv_heads=2, head_dim=64)
    assert flow.token_ratio_bytes == 2.125 and '"op": "Multiply"' in flow.json
    words = ["plan", "--model", "llama-3.1-8b", "--flow", f"{examples}/h2o.py:GQAH2O", "--isa", "scalar"]
    plan = subprocess.run([sys.executable, "-m", "kvmill", *words], capture_output=True, check=True, text=True)
    assert "score" in plan.stdout and "torch" not in sys.modules


def portable() -> None:
    """Plans without kernels, and runs of plans without kernels, warn once or are refused."""
    past, update = np.zeros((2, 3, 9, 7), np.uint8), np.ones((2, 3, 2, 7), np.uint8)

    def warned(call: Callable[[], object]) -> int:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert all(w.category is kvmill.PortableKernelWarning for w in caught)
        assert all(w.filename == __file__ for w in caught), [w.filename for w in caught]
        return len(caught)

    def plan(portable: kvmill.plans.Portable) -> kvmill.TensorScatter:
        return kvmill.TensorScatter(past, update, packs=(), portable=portable)

    assert warned(lambda: plan("warn")) == 1
    assert warned(lambda: [plan("allow"), plan("only"), plan(True)]) == 0
    try:
        plan("refuse")
    except kvmill.KvmillError as error:
        assert error.status_name == "KVMILL_E_KERNEL" and "store rows" in error.message
    else:
        raise AssertionError("it was not refused")
    for way in ("allow", "warn"):
        assert (plan(way).run(past, update)[:, :, :2] == 1).all()


def masks(pack: str) -> None:
    """With a pack without kernels for masks, only runs with a mask warn, once per plan, and all
    results are right."""

    def make(portable: kvmill.plans.Portable) -> kvmill.MultiHeadAttention:
        return kvmill.MultiHeadAttention(
            num_heads=8, num_kv_heads=2, head_dim=64, T1="float16", is_causal=False,
            packs=[kvmill.Pack(pack)], portable=portable,
        )  # fmt: skip

    query = np.ones((1, 2, 8, 64), np.float16)
    rows = np.arange(1, 3, dtype=np.float16)[None, :, None, None] * np.ones((1, 2, 2, 64), np.float16)
    first = np.array([[0, -np.inf], [0, -np.inf]], np.float16)
    given = {"query": query, "key": query[:, :, :2], "value": rows}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plan = make("warn")
        assert (plan.run(**given) == 1.5).all() and not caught
        output = np.zeros_like(query)
        call = plan.prepare(attn_output=output, attn_mask=first, **given)
        call.run()
        assert (output == 1).all()
        with ThreadPoolExecutor(2) as pool:
            assert (plan.run(executor=pool, attn_mask=first, **given) == 1).all()
            call.run_threads(pool)
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == 1 and "with a mask" in texts[0], texts
    try:
        make("refuse").run(attn_mask=first, **given)
    except kvmill.KvmillError as error:
        assert error.status_name == "KVMILL_E_KERNEL"
    else:
        raise AssertionError("it was not refused")


if __name__ == "__main__":
    tests: dict[str, typing.Callable[..., None]] = dict(globals())
    tests[sys.argv[1]](*sys.argv[2:])
