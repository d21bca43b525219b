"""For each name in the tables of planted faults: the programs to run, and the kernels that they
link or load.  See faults.py.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

SOURCE, BUILD = Path(os.environ["srcdir"]), Path(os.environ["builddir"])
SCRATCH = Path.cwd()
CALLS_PYTHON = BUILD / "wheel-venv/bin/python"


class Failed(Exception):
    """A command failed; has its output."""


def run(command: Iterable[str | Path], **environment: str | Path) -> str:
    """Return the standard output of a command."""
    done = subprocess.run(
        [str(word) for word in command],
        env=os.environ | {name: str(value) for name, value in environment.items()},
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode != 0:
        raise Failed(done.stderr[-2000:])
    return done.stdout


@cache
def has_calls_python() -> bool:
    """Whether wheel-venv exists; creates it if possible."""
    make = '. "$0" && make_venv "$@"'
    pinned = SOURCE / "bindings/python/requirements.txt"
    made = subprocess.run(["sh", "-c", make, SOURCE / "tests/venv.sh", BUILD, "wheel", pinned], stdout=subprocess.DEVNULL)
    return made.returncode == 0


# ---- Kernels ----


@dataclass
class Kernels:
    """A set of kernels, generated again from templates with a fault."""

    generate: Callable[[Kernels, Path, Path], None]  # writes kernels to a folder, from templates below another
    isas: str = "avx2"
    optimize: str = "-O1"  # -O2 contracts products and sums, unless the source forbids it
    name: str = "kvmill_test"  # the pack's name
    specs: Callable[[], str] = str
    options: tuple[str, ...] = ()
    only: str = ""  # a pattern of the objects to link; empty: all
    shared: str = ""  # the variable with the library's path, if the program loads it
    variables: dict[str, str] = field(default_factory=dict)

    def good(self) -> Path:
        return SCRATCH / "kernels" / f"{self.name}-{id(self)}" / self.name

    def sources(self, folder: Path) -> list[Path]:
        return sorted(source for source in folder.glob("*.c") if re.search(self.only, source.name))


def command_of(data: Path) -> Path:
    """Return the command of a copy of the sources, if it has one, or the build's."""
    own = data / "kvmill"
    return own if own.exists() else Path(os.environ["kvmill"])


def from_specs(kernels: Kernels, folder: Path, data: Path) -> None:
    specs = folder.parent / f"{kernels.name}.json"
    specs.write_text(kernels.specs())
    isas = ["--isa", kernels.isas]
    command = [command_of(data), "generate", "--kernels", specs, *isas, *kernels.options]
    run([*command, "-o", folder], KVMILL_DATADIR=data)


SCORES = [
    "bound_f16_d71_h3_b2_max",
    "bound_f32_d40_h2_b1_headmean",
    "dot_f16_d40_h3_b2_headsum_thenblockmax",
    "dot_bf16_d20_h3_b2",
]
INDEXERS = [
    "indexer_bf16_d43_h5_b1_headsum",
    "indexer_f16_d80_h17_b2_headmean_thenblockmax",
    "weighted_f32_d9_h9_b1_headmax",
    "dot_bf16_d40_h1_b5_blockmean",
]


def score_symbols(kernels: Kernels) -> list[str]:
    isas = kernels.isas.split(",")
    scores = [f"kvmill_score_pages_{score}__{isa}_tiles" for isa in isas for score in SCORES]
    scores += [f"kvmill_score_pages_{score}__{isa}_heads" for isa in isas for score in INDEXERS]
    return scores + [f"kvmill_select_pages_f32__{isa}_threshold" for isa in isas if isa != "scalar"]


def from_symbols(kernels: Kernels, folder: Path, data: Path) -> None:
    """Generate kernels that score and select one by one, and write a pack of them."""
    symbols = score_symbols(kernels)
    for symbol in symbols:
        source = run([command_of(data), "explain", "--source", symbol], KVMILL_DATADIR=data)
        (folder / f"{symbol}.c").write_text(source)
    (folder / "pack.c").write_text(
        "#include <kvmill_kernel.h>\n"
        f"extern const struct kvmill_kernel {', '.join(symbols)};\n"
        f"static const struct kvmill_kernel *const kernels[] = {{{', '.join('&' + symbol for symbol in symbols)}}};\n"
        "const struct kvmill_pack kvmill_pack_kvmill_test = {.abi = KVMILL_KERNEL_ABI,\n"
        "    .count = sizeof kernels / sizeof *kernels, .kernels = kernels};\n"
    )


def table(name: str) -> Callable[[], str]:
    return (SOURCE / "tests/tables/faults" / name).read_text


def some_of_test(choose: Callable[[list[dict]], list[dict]]) -> Callable[[], str]:
    """Return a function that returns chosen specs of the tests' pack."""

    def text() -> str:
        kernels = json.loads((SOURCE / "configs/specs/test.json").read_text())["kernels"]
        return json.dumps({"kernels": choose(kernels)})

    return text


def told_gathers() -> str:
    """Return specs of a few random gathers, which t_windows prints for one seed."""
    told = SCRATCH / "gathers"
    run([BUILD / "tests/t_windows"], KVMILL_WINDOWS_SPECS=told, KVMILL_WINDOWS_CASES="24", KVMILL_SEED="11")
    return '{"kernels": [' + ",".join(told.read_text().splitlines()) + "]}"


@cache
def runs_isa(name: str) -> bool:
    rows = [row.split() for row in run([os.environ["kvmill"], "isas"]).splitlines()]
    return any(row[0] == name and row[3] == "yes" for row in rows)


def those(*names: str) -> str:
    return ",".join(name for name in names if runs_isa(name))


CODES, HALVES = "avx2,avx512vnni", "avx2,avx512vnni,avx512fp16"
DEFAULT = Kernels(from_specs, specs=table("default.json"), name="kvmill_default")
ROWS = Kernels(from_specs, specs=table("rows.json"))
SCATTER = Kernels(from_specs, specs=table("scatter.json"))
ATTENTION = Kernels(from_specs, specs=table("attention.json"))
ATTENTION_CODES = Kernels(from_specs, specs=table("attention.json"), isas=CODES)
ATTENTION_HALVES = Kernels(from_specs, specs=table("attention.json"), isas=HALVES)
SCORE = Kernels(from_symbols, isas=those("scalar", "avx2", "avx512"), optimize="-O2")
HANDLERS = Kernels(
    from_specs, specs=(SOURCE / "configs/specs/handlers.json").read_text, name="kvmill_handlers", options=("--ffi",)
)
GATHERS = Kernels(from_specs, specs=told_gathers, name="windows", shared="KVMILL_WINDOWS_PACK")
REGIONS = Kernels(
    from_specs,
    specs=some_of_test(lambda kernels: [k for k in kernels if k.get("update_computation", "").startswith("^")]),
    name="regions",
    optimize="-O2",
    shared="KVMILL_REGIONS_PACK",
)


def whole_programs(kernels: list[dict]) -> list[dict]:
    """Return flows that have all ops: the first seven, those that write rows of K or V, and those
    with blocks.  All others consist of atoms."""
    flows = [kernel for kernel in kernels if kernel["op"] == "flow"]
    writes = [any(op.get("output") in ("k", "v") for op in flow.get("cache", [])) for flow in flows]
    return [flow for i, flow in enumerate(flows) if i < 7 or writes[i] or "block_size" in flow]


PROGRAMS = Kernels(
    from_specs,
    specs=some_of_test(whole_programs),
    name="flows",
    optimize="-O2",
    only="^kvmill_flow_program_",
    shared="KVMILL_PROGRAMS",
)


@dataclass
class Check:
    """Programs that may notice a fault, tried in order, and the kernels that they link or load
    instead of the build's."""

    programs: list[str]
    kernels: list[Kernels] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    isa: str = "scalar"  # the instruction set that the machine must have
    reads_onnx: bool = False
    calls_python: bool = False  # the fault is in the Python binding, and random calls must notice it

    def missing(self) -> str:
        """Return what this machine lacks, or an empty text."""
        if self.reads_onnx and os.environ["ONNX"] != "yes":
            return "no protobuf-c"
        if self.calls_python and not has_calls_python():
            return "no wheel-venv"
        return "" if runs_isa(self.isa) else f"no {self.isa}"

    def linked(self) -> list[Kernels]:
        return [kernels for kernels in self.kernels if not kernels.shared]


def seeded(isa: str = "avx2", **more: str) -> dict[str, str]:
    return {"KVMILL_SEED": "11", "KVMILL_ISA": isa, **more}


ATTEND = ["t_attend_kernels", "t_attend_errors", "t_convert", "t_attention_cases", "t_cache_attention"]
CHECKS = {
    "rows": Check(["t_scatter", "t_cases"], [ROWS, DEFAULT], seeded(), "avx2"),
    "windows": Check(["t_windows"], [SCATTER, DEFAULT], seeded(), "avx2"),
    "gathers": Check(["t_windows"], [GATHERS], seeded(KVMILL_WINDOWS_CASES="24"), "avx2"),
    "attention": Check(ATTEND, [ATTENTION, DEFAULT], seeded(), "avx2"),
    "codes": Check(ATTEND, [ATTENTION_CODES, DEFAULT], seeded("avx512vnni"), "avx512vnni"),
    "halves": Check(ATTEND, [ATTENTION_HALVES, DEFAULT], seeded("avx512fp16"), "avx512fp16"),
    "t_ffi": Check(["t_ffi"], [HANDLERS], seeded(), "avx2"),
    "t_onnx_models": Check(["t_onnx_models"], reads_onnx=True),
    "t_scores": Check(["t_scores"], [SCORE, DEFAULT]),
    "fused_scores": Check(["t_scores"], [SCORE, DEFAULT], isa="avx512"),
    "python_calls": Check(["python_calls"], calls_python=True),
    "regions": Check(["t_regions"], [REGIONS], {"KVMILL_SEED": "7", "KVMILL_ISA": "avx2"}, "avx2"),
    "programs": Check(
        ["t_flow_programs"],
        [PROGRAMS],
        {"KVMILL_SEED": "7", "KVMILL_ISA": "avx2", "KVMILL_PROGRAMS_SPECS": str(PROGRAMS.good().parent / "flows.json")},
        "avx2",
    ),
}
