"""Do the tests bite?  Faults are planted one at a time; the programs that the table names must notice each.

A line of tests/tables/faults/*.tsv is a fault: the programs, a file, a text of it and what replaces that, a name.  What
is made of the file is made again and linked with what the build has: objects of the programs, libraries, kernels.

KVMILL_FAULTS_TURN (0 to 23, or "all"; else the day) is the share that is built, KVMILL_FAULTS, a regular expression,
chooses faults by name instead.  The texts of all must fit.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

SOURCE, BUILD = Path(os.environ["srcdir"]), Path(os.environ["builddir"])
sys.path.insert(0, str(SOURCE / "tests/conformance"))
from tap import Tap  # noqa: E402

SCRATCH = Path.cwd()
SHARES = 24
SECONDS = 400  # that a program may take; of processor time three times what it takes without a fault, and five
KERNEL_FLAGS = ["-w", "-fPIC", f"-I{SOURCE}/include"]
CC = shlex.split(os.environ["CC"])


def words(*names: str) -> list[str]:
    return [word for name in names for word in shlex.split(os.environ[name])]


class Failed(Exception):
    """A command failed: what it said."""


def run(command: Iterable[str | Path], **environment: str | Path) -> str:
    """What the command says on standard output."""
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


# ---- Kernels ----


@dataclass
class Kernels:
    """A set of kernels, generated anew from templates with a fault."""

    generate: Callable[[Kernels, Path, Path], None]  # to a folder, from templates below another
    isas: str = "avx2"
    optimize: str = "-O1"  # -O2 joins products and sums, unless the source forbids it
    name: str = "kvmill_test"  # of the pack
    specs: Callable[[], str] = str
    options: tuple[str, ...] = ()
    only: str = ""  # the objects that are linked, a pattern; all without it
    shared: str = ""  # the variable that tells the program where the library is, if it loads it
    variables: dict[str, str] = field(default_factory=dict)

    def good(self) -> Path:
        return SCRATCH / "kernels" / f"{self.name}-{id(self)}" / self.name

    def sources(self, folder: Path) -> list[Path]:
        return sorted(source for source in folder.glob("*.c") if re.search(self.only, source.name))


def from_specs(kernels: Kernels, folder: Path, data: Path) -> None:
    specs = folder.parent / f"{kernels.name}.json"
    specs.write_text(kernels.specs())
    isas = ["--isa", kernels.isas]
    command = [os.environ["kvmill"], "generate", "--kernels", specs, *isas, *kernels.options]
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
    """Kernels that score and select, one by one, and a pack of them."""
    symbols = score_symbols(kernels)
    for symbol in symbols:
        source = run([os.environ["kvmill"], "explain", "--source", symbol], KVMILL_DATADIR=data)
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
    """Specs of the tests' pack."""

    def text() -> str:
        kernels = json.loads((SOURCE / "configs/specs/test.json").read_text())["kernels"]
        return json.dumps({"kernels": choose(kernels)})

    return text


def told_gathers() -> str:
    """Specs of a few random gathers, those of one seed, as the programs tell them."""
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
    """Flows with all ops: after the first seven are atoms, except those that write rows, and those of blocks."""
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
    """Programs that notice a fault, the first or another; kernels that they link or load in place of the build's."""

    programs: list[str]
    kernels: list[Kernels] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    isa: str = "scalar"  # that the machine must have
    reads_onnx: bool = False

    def missing(self) -> str:
        """What this machine lacks, or nothing."""
        if self.reads_onnx and os.environ["ONNX"] != "yes":
            return "no protobuf-c"
        return "" if runs_isa(self.isa) else f"no {self.isa}"

    def linked(self) -> list[Kernels]:
        return [kernels for kernels in self.kernels if not kernels.shared]


def seeded(isa: str = "avx2", **more: str) -> dict[str, str]:
    return {"KVMILL_SEED": "11", "KVMILL_ISA": isa, **more}


ATTEND = ["t_attend_kernels", "t_convert", "t_attention_cases", "t_cache_attention"]
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
    "regions": Check(["t_regions"], [REGIONS], {"KVMILL_SEED": "7", "KVMILL_ISA": "avx2"}, "avx2"),
    "programs": Check(
        ["t_flow_programs"],
        [PROGRAMS],
        {"KVMILL_SEED": "7", "KVMILL_ISA": "avx2", "KVMILL_PROGRAMS_SPECS": str(PROGRAMS.good().parent / "flows.json")},
        "avx2",
    ),
}


def check_of(fault: dict) -> Check:
    return CHECKS.get(fault["program"]) or Check([fault["program"]])


# ---- Making ----


@cache
def precompile(optimize: str) -> None:
    """The header of intrinsics, for kernels with these flags."""
    run(["sh", SOURCE / "tests/precompile.sh", SCRATCH / f"headers{optimize}", *CC, optimize])


def compile_kernel(kernels: Kernels, source: Path, target: Path, include: Path) -> Path:
    special = ["-mavx512fp16"] if "__avx512fp16_" in source.name else []
    flags = [kernels.optimize, *KERNEL_FLAGS, *special, f"-I{SCRATCH}/headers{kernels.optimize}", f"-I{source.parent}"]
    run([*CC, f"-I{include}", *flags, "-c", "-o", target, source])
    return target


def share(kernels: Kernels, objects: list[Path], folder: Path) -> Path:
    library = folder / f"{kernels.name}.so"
    run([*CC, "-shared", "-o", library, *objects])
    return library


good_kernels: dict[tuple[str, bytes], Path] = {}  # what two sets have is compiled once


def compile_good(kernels: Kernels, source: Path) -> Path:
    key, target = (kernels.optimize, source.read_bytes()), source.with_suffix(".o")
    if key in good_kernels:
        os.link(good_kernels[key], target)
    else:
        good_kernels[key] = compile_kernel(kernels, source, target, SOURCE / "include")
    return target


def make_kernels(kernels: Kernels, pool: ThreadPoolExecutor) -> None:
    """Those without a fault."""
    folder = kernels.good()
    folder.mkdir(parents=True)
    precompile(kernels.optimize)
    kernels.generate(kernels, folder, SOURCE)
    made = list(pool.map(lambda source: compile_good(kernels, source), kernels.sources(folder)))
    if kernels.shared:
        share(kernels, made, folder)


def objects_of(kernels: Kernels, place: Path, of_header: bool) -> tuple[list[Path], bool]:
    """Objects of the kernels with the fault below place, and whether any differs."""
    good, folder = kernels.good(), place / kernels.name
    if not of_header:
        folder.mkdir(parents=True)
        kernels.generate(kernels, folder, place)
    objects = []
    for source in kernels.sources(good):
        other = source if of_header else folder / source.name
        if not of_header and other.read_bytes() == source.read_bytes():
            objects.append(source.with_suffix(".o"))
        else:
            objects.append(compile_kernel(kernels, other, place / f"{source.stem}.o", place / "include"))
    return objects, any(place in made.parents for made in objects)


def compile_source(place: Path, path: Path) -> Path:
    """path is relative to the source tree, and to the place, which has the fault."""
    target = place / f"{path.stem}.o"
    folders = [f"-I{place}/include", f"-I{SOURCE}/include", "-iquote", SOURCE / path.parent, f"-I{BUILD}/import/onnx"]
    flags = ["-std=gnu11", "-O1", "-ffp-contract=off", "-w", "-D_GNU_SOURCE", f"-I{SOURCE}/tests"]
    run([*CC, *flags, *folders, *words("TUNE_CFLAGS", "ONNX_CFLAGS"), "-c", "-o", target, place / path])
    return target


def link(program: str, target: Path, own: list[Path], kernels: list[Path]) -> Path:
    """Objects made here come before what the build has, and take its place."""
    names = {made.stem for made in own}
    objects = [o for o in (BUILD / "tests").glob(f"{program}-*.o") if o.stem.removeprefix(f"{program}-") not in names]
    built = [BUILD / f"generated/{name}/lib{name}.a" for name in ("kvmill_default", "kvmill_test")]
    packs = list({made.stem: made for made in kernels}.values()) or built
    libraries = [BUILD / f".libs/lib{name}.a" for name in ("tools", "tune", "gen", "runtime", "ops")]
    group = ["-Wl,--start-group", BUILD / ".libs/libtest.a", *libraries, *packs, "-Wl,--end-group"]
    run([*CC, "-o", target, *objects, *own, *group, *words("TUNE_LIBS", "ONNX_LIBS"), "-lpthread", "-lm"])
    return target


def good_objects(kernels: Kernels) -> list[Path]:
    return [source.with_suffix(".o") for source in kernels.sources(kernels.good())]


def good_program(check: Check, program: str) -> Path:
    name = "-".join([program, *(str(id(kernels)) for kernels in check.linked())])
    return SCRATCH / "programs" / name


usual: dict[str, float] = {}  # seconds that programs take without a fault


def passes(check: Check, program: Path, libraries: dict[str, Path], seconds: float = SECONDS) -> bool:
    settings = {"KVMILL_TEST_SLOW": "1", "KVMILL_TEST_STOP": "1", **check.variables}
    try:
        limited = ["sh", "-c", 'ulimit -t "$0"; exec timeout "$@"', str(int(5 + 3 * seconds)), str(SECONDS)]
        run([*limited, program], **settings, **libraries)
    except Failed:
        return False
    return True


# ---- Faults ----


def plant(fault: dict, place: Path) -> None:
    path = place / fault["file"]
    path.parent.mkdir(parents=True, exist_ok=True)
    text = (SOURCE / fault["file"]).read_text()
    path.unlink(missing_ok=True)
    path.write_text(text.replace(fault["from"], fault["to"], 1))


def includers(name: str, program: str) -> list[Path]:
    found = [*SOURCE.glob("runtime/*/*.c"), SOURCE / f"tests/{program}.c"]
    return [path.relative_to(SOURCE) for path in found if re.search(rf'[<"/]{re.escape(name)}[>"]', path.read_text())]


def mirror(place: Path, *folders: str) -> None:
    for folder in folders:
        shutil.copytree(SOURCE / folder, place / folder, copy_function=os.symlink)


def changed_sources(fault: dict, place: Path, program: str) -> list[Path]:
    path = Path(fault["file"])
    if path.suffix == ".c":
        return [compile_source(place, path)]
    return [compile_source(place, source) for source in includers(path.name, program)]


@dataclass
class Made:
    """What became of a fault: programs that may notice it, in turn, and the libraries that they load."""

    own: list[Path] = field(default_factory=list)
    linked: list[Path] = field(default_factory=list)
    libraries: dict[str, Path] = field(default_factory=dict)


def make_kernels_again(check: Check, place: Path, of_header: bool, made: Made) -> None:
    for kernels in check.kernels:
        objects, differ = objects_of(kernels, place, of_header)
        if kernels.shared:
            made.libraries[kernels.shared] = share(kernels, objects, place if differ else kernels.good())
        else:
            made.linked += objects


def make_again(fault: dict, check: Check, place: Path) -> Made:
    path = fault["file"]
    made = Made()
    of_template, of_kernels = path.startswith("templates/"), path.startswith("include/")
    if of_template:
        mirror(place, "templates", "include")
    elif path.endswith(".h"):
        mirror(place, "base", "defs", "include", "ops", "runtime", "tests")
    plant(fault, place)
    if of_template or of_kernels:
        make_kernels_again(check, place, of_kernels, made)
    else:
        made.linked = [o for kernels in check.linked() for o in good_objects(kernels)]
        made.libraries = good_libraries(check)
    if not of_template:
        made.own = changed_sources(fault, place, check.programs[0])
    return made


def good_libraries(check: Check) -> dict[str, Path]:
    return {k.shared: k.good() / f"{k.name}.so" for k in check.kernels if k.shared}


def noticed_by(check: Check, made: Made, place: Path) -> str | None:
    """The program that notices the fault."""
    for program in check.programs:
        unchanged = not made.own and not check.linked()
        built = good_program(check, program) if unchanged else link(program, place / program, made.own, made.linked)
        if not passes(check, built, made.libraries, usual[good_program(check, program).name]):
            return program
    return None


# ---- Results ----


def try_fault(number: int, fault: dict, tap: Tap) -> None:
    check = check_of(fault)
    name = f"{fault['file']}: {fault['fault']}"
    if check.missing():
        tap.result(True, f"{name} # SKIP {check.missing()}")
        return
    place = SCRATCH / "faults" / str(number)
    start = time.monotonic()
    try:
        who = noticed_by(check, make_again(fault, check, place), place)
        tap.result(who is not None, f"{name}: noticed" + (f" by {who}, {time.monotonic() - start:.1f} s" if who else ""))
    except Failed as error:
        tap.result(False, f"{name}: does not build", str(error))
    shutil.rmtree(place, ignore_errors=True)


def try_good(check: Check, program: str, tap: Tap) -> None:
    """Without a fault nothing is noticed."""
    built = good_program(check, program)
    link(program, built, [], [o for kernels in check.linked() for o in good_objects(kernels)])
    start = time.monotonic()
    passed = passes(check, built, good_libraries(check))
    usual[built.name] = time.monotonic() - start
    tap.result(passed, f"{program} without a fault passes, {usual[built.name]:.1f} s")


def read_tables() -> list[dict]:
    rows = []
    for path in sorted((SOURCE / "tests/tables/faults").glob("*.tsv")):
        with path.open(newline="") as stream:
            rows += csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
    return rows


def chosen(faults: list[dict]) -> list[dict]:
    turn = os.environ.get("KVMILL_FAULTS_TURN", "")
    if wanted := os.environ.get("KVMILL_FAULTS"):
        return [fault for fault in faults if re.search(wanted, f"{fault['file']}: {fault['fault']}")]
    if turn == "all":
        return faults
    number = int(turn or time.time() // 86400) % SHARES
    print(f"# share {number} of {SHARES}{'' if turn else ', by the day'}; KVMILL_FAULTS_TURN says another, or all")
    # By program: what one needs without a fault is made once, and shares have few programs.
    ordered = sorted(faults, key=lambda fault: fault["program"])
    return ordered[number * len(faults) // SHARES : (number + 1) * len(faults) // SHARES]


def fits(fault: dict) -> bool:
    return fault["from"] != fault["to"] and fault["from"] in (SOURCE / fault["file"]).read_text()


def prepare(checks: list[Check], tap: Tap, pool: ThreadPoolExecutor) -> None:
    (SCRATCH / "programs").mkdir()
    for kernels in {id(k): k for check in checks for k in check.kernels}.values():
        make_kernels(kernels, pool)
    goods = {good_program(check, program): (check, program) for check in checks for program in check.programs}
    list(pool.map(lambda good: try_good(*good, tap), goods.values()))


def main() -> int:
    tap = Tap()
    faults = read_tables()
    lost = [fault for fault in faults if not fits(fault)]
    for fault in lost:
        tap.result(False, f"{fault['file']}: {fault['fault']}: could not be planted: its text is not there")
    tap.result(bool(faults), f"{len(faults)} faults are in the tables")
    some = [fault for fault in chosen(faults) if fault not in lost]
    print(f"# {len(some)} faults are built")
    checks = {fault["program"]: check_of(fault) for fault in some}
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        prepare([check for check in checks.values() if not check.missing()], tap, pool)
        list(pool.map(lambda job: try_fault(*job, tap), enumerate(some)))
    used = os.times()
    print(f"# {used.children_user + used.children_system:.0f} s of processor time")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
