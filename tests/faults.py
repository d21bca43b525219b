"""Do the tests notice errors?  Faults are planted one at a time, and the programs that the table names must fail.

A line of tests/tables/faults/*.tsv is a fault: programs, a file, a text in it, the replacement, and a name.  What
depends on the file is built again, and linked with objects of the build: programs, libraries, kernels.

KVMILL_FAULTS_TURN (0 to 95, or "all"; by default the day) selects the share that is built.  KVMILL_FAULTS, a regular
expression, selects faults by name instead.  The texts of all faults must occur in their files.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import csv
import os
import re
import shlex
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from fault_checks import BUILD, CALLS_PYTHON, CHECKS, SCRATCH, SOURCE, Check, Failed, Kernels, run

sys.path.insert(0, str(SOURCE / "tests/conformance"))
from tap import Tap  # noqa: E402

SHARES = 96
SECONDS = 400  # limit for a program, by the clock; of processor time it may use three times what it needs without a fault, and five
KERNEL_FLAGS = ["-w", "-fPIC", f"-I{SOURCE}/include"]
CC = shlex.split(os.environ["CC"])


def words(*names: str) -> list[str]:
    return [word for name in names for word in shlex.split(os.environ[name])]


def check_of(fault: dict) -> Check:
    return CHECKS.get(fault["program"]) or Check([fault["program"]])


# ---- Making ----


@cache
def precompile(optimize: str) -> None:
    """Precompile the header of intrinsics for kernels with these flags."""
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


good_kernels: dict[tuple[str, bytes], Path] = {}  # kernels that two sets share are compiled once


def compile_good(kernels: Kernels, source: Path) -> Path:
    key, target = (kernels.optimize, source.read_bytes()), source.with_suffix(".o")
    if key in good_kernels:
        os.link(good_kernels[key], target)
    else:
        good_kernels[key] = compile_kernel(kernels, source, target, SOURCE / "include")
    return target


def make_kernels(kernels: Kernels, pool: ThreadPoolExecutor) -> None:
    """Make the kernels without a fault."""
    folder = kernels.good()
    folder.mkdir(parents=True)
    precompile(kernels.optimize)
    kernels.generate(kernels, folder, SOURCE)
    made = list(pool.map(lambda source: compile_good(kernels, source), kernels.sources(folder)))
    if kernels.shared:
        share(kernels, made, folder)


def objects_of(kernels: Kernels, place: Path, of_header: bool) -> tuple[list[Path], bool]:
    """Return the objects of the kernels in `place`, which has the fault, and whether any of them
    differs."""
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
    """Compile a file with the fault.  path: relative to the source tree and to `place`."""
    target = place / f"{path.stem}.o"
    folders = [f"-I{place}/include", f"-I{SOURCE}/include", "-iquote", SOURCE / path.parent, f"-I{BUILD}/import/onnx"]
    flags = ["-std=gnu11", "-O1", "-ffp-contract=off", "-w", "-D_GNU_SOURCE", f"-I{SOURCE}/tests"]
    run([*CC, *flags, *folders, *words("TUNE_CFLAGS", "ONNX_CFLAGS"), "-c", "-o", target, place / path])
    return target


def link(program: str, target: Path, own: list[Path], kernels: list[Path]) -> Path:
    """Link a program.  Objects made here replace those of the build."""
    names = {made.stem for made in own}
    objects = [o for o in (BUILD / "tests").glob(f"{program}-*.o") if o.stem.removeprefix(f"{program}-") not in names]
    built = [BUILD / f"generated/{name}/lib{name}.a" for name in ("kvmill_default", "kvmill_test")]
    packs = list({made.stem: made for made in kernels}.values()) or built
    libraries = [BUILD / f".libs/lib{name}.a" for name in ("tools", "tune", "gen", "runtime", "ops")]
    group = ["-Wl,--start-group", BUILD / ".libs/libtest.a", *libraries, *packs, "-Wl,--end-group"]
    run([*CC, *words("LINKER"), "-o", target, *objects, *own, *group, *words("TUNE_LIBS", "ONNX_LIBS"), "-lpthread", "-lm"])
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
    """The result of building a fault: programs that may notice it, in order, and the libraries that
    they load."""

    own: list[Path] = field(default_factory=list)
    linked: list[Path] = field(default_factory=list)
    libraries: dict[str, Path] = field(default_factory=dict)


def make_kernels_again(check: Check, place: Path, of_header: bool, made: Made) -> None:
    changed = False
    for kernels in check.kernels:
        objects, differ = objects_of(kernels, place, of_header)
        changed |= differ
        if kernels.shared:
            made.libraries[kernels.shared] = share(kernels, objects, place if differ else kernels.good())
        else:
            made.linked += objects
    if not changed:
        raise Failed("no kernel that is made for its program has it")


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
    """Return the program that notices the fault."""
    for program in check.programs:
        unchanged = not made.own and not check.linked()
        built = good_program(check, program) if unchanged else link(program, place / program, made.own, made.linked)
        if not passes(check, built, made.libraries, usual[good_program(check, program).name]):
            return program
    return None


def calls_fail(binding: Path) -> bool:
    """Whether random calls of the Python package in this folder end with an unexpected error."""
    call = ["timeout", str(SECONDS), CALLS_PYTHON, SOURCE / "tests/wheel/random_calls.py", os.devnull]
    pack = BUILD / "generated/kvmill_default/libkvmill_default.so"
    library = BUILD / ".libs/libkvmill.so"
    settings = {"KVMILL_SEED": "24", "KVMILL_PYTHON_CALLS": "1000", "KVMILL_PACKS": pack, "KVMILL_LIBRARY": library}
    try:
        run(call, PYTHONPATH=binding, **settings)
    except Failed:
        return True
    return False


def noticed_by_calls(fault: dict, place: Path) -> str | None:
    mirror(place, "bindings/python")
    plant(fault, place)
    return "random calls" if calls_fail(place / "bindings/python") else None


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
        if check.calls_python:
            who = noticed_by_calls(fault, place)
        else:
            who = noticed_by(check, make_again(fault, check, place), place)
        tap.result(who is not None, f"{name}: noticed" + (f" by {who}, {time.monotonic() - start:.1f} s" if who else ""))
    except Failed as error:
        tap.result(False, f"{name}: does not build", str(error))
    shutil.rmtree(place, ignore_errors=True)


def try_good(check: Check, program: str, tap: Tap) -> None:
    """Check that the programs pass without a fault."""
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
    turn = os.environ.get("KVMILL_FAULTS_TURN") or os.environ.get("KVMILL_TURN", "")
    if wanted := os.environ.get("KVMILL_FAULTS"):
        return [fault for fault in faults if re.search(wanted, f"{fault['file']}: {fault['fault']}")]
    if turn == "all":
        return faults
    number = int(turn or time.time() // 86400) % SHARES
    print(f"# share {number} of {SHARES}{'' if turn else ', by the day'}; KVMILL_FAULTS_TURN says another, or all")
    # Sorted by program: what a program needs without a fault is built once, and each share has few
    # programs.
    ordered = sorted(faults, key=lambda fault: fault["program"])
    return ordered[number * len(faults) // SHARES : (number + 1) * len(faults) // SHARES]


def fits(fault: dict) -> bool:
    return fault["from"] != fault["to"] and fault["from"] in (SOURCE / fault["file"]).read_text()


def prepare(checks: list[Check], tap: Tap, pool: ThreadPoolExecutor) -> None:
    (SCRATCH / "programs").mkdir()
    if any(check.calls_python for check in checks):
        tap.result(not calls_fail(SOURCE / "bindings/python"), "random calls of Python without a fault pass")
    checks = [check for check in checks if not check.calls_python]
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
