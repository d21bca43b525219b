"""A change to a copy of the sources: what depends on it is built again and linked with objects of the build, and the
programs that may notice the change run.  See faults.py and mutants.py.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from fault_checks import BUILD, SCRATCH, SOURCE, Check, Failed, Kernels, run

SECONDS = 400  # limit for a program, by the clock; of processor time it may use three times what it needs without a fault, and five
KERNEL_FLAGS = ["-w", "-fPIC", f"-I{SOURCE}/include"]
CC = shlex.split(os.environ["CC"])


def words(*names: str) -> list[str]:
    return [word for name in names for word in shlex.split(os.environ[name])]


# What the build defines for readers and generator; tests say where everything is by variables.
PLACES = {"M4": os.environ["M4"], "SOURCEDIR": SOURCE, "BUILDDIR": BUILD, "BINDIR": "/usr/local/bin"}
PLACES |= {"PKGDATADIR": "/usr/local/share/kvmill", "PKGLIBDIR": "/usr/local/lib/kvmill"}
PLACES |= {"INCLUDEDIR": "/usr/local/include", "LIBDIR": "/usr/local/lib"}
MACROS = ["-D_GNU_SOURCE", *(f'-DKVMILL_{name}="{place}"' for name, place in PLACES.items())]


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


def compile_source(place: Path, path: Path, target: Path | None = None, *more: str) -> Path:
    """Compile a file with the change.  path: relative to the source tree and to `place`."""
    target = target or place / f"{path.stem}.o"
    folders = [f"-I{place}/include", f"-I{SOURCE}/include", "-iquote", SOURCE / path.parent, f"-I{BUILD}/import/onnx"]
    flags = ["-std=gnu11", "-O1", "-ffp-contract=off", "-w", *MACROS, f"-I{SOURCE}/tests", f"-I{SOURCE}", *more]
    libraries = words("TUNE_CFLAGS", "HWLOC_CFLAGS", "ONNX_CFLAGS")
    run([*CC, *flags, *folders, *libraries, "-c", "-o", target, place / path])
    return target


LIBRARIES = [BUILD / f".libs/lib{name}.a" for name in ("tools", "tune", "gen", "runtime", "ops")]


def link_objects(target: Path, objects: list[Path], libraries: list[Path]) -> Path:
    group = ["-Wl,--start-group", *libraries, "-Wl,--end-group"]
    needed = [*words("TUNE_LIBS", "ONNX_LIBS"), "-Wl,--as-needed", *words("OPENMP_CFLAGS"), "-lpthread", "-lm"]
    run([*CC, *words("LINKER"), "-o", target, *objects, *group, *needed])
    return target


def link(program: str, target: Path, own: list[Path], kernels: list[Path], libraries: list[Path] = LIBRARIES) -> Path:
    """Link a program.  Objects made here replace those of the build."""
    names = {made.stem for made in own}
    objects = [o for o in (BUILD / "tests").glob(f"{program}-*.o") if o.stem.removeprefix(f"{program}-") not in names]
    if program == "t_read_specs":  # of a shared library, which has no archive
        objects += [o for o in (BUILD / "libspecs/.libs").glob("*.o") if o.stem.split("-")[-1] not in names]
    built = [BUILD / f"generated/{name}/lib{name}.a" for name in ("kvmill_default", "kvmill_test", "kvmill_handlers")]
    packs = list({made.stem: made for made in kernels}.values()) or built
    tests = [BUILD / f".libs/lib{name}.a" for name in ("test", "fuzz")]
    wrapped = [f"-Wl,@{SOURCE}/tests/failures.wrap"] if program == "t_failures" else []
    return link_objects(target, [*objects, *own, *wrapped], [*tests, *libraries, *packs])


def good_objects(kernels: Kernels) -> list[Path]:
    return [source.with_suffix(".o") for source in kernels.sources(kernels.good())]


def good_program(check: Check, program: str) -> Path:
    name = "-".join([program, *(str(id(kernels)) for kernels in check.linked())])
    return SCRATCH / "programs" / name


usual: dict[str, float] = {}  # processor seconds that programs take without a change


# A program with a change may ask for any memory, print without end, or write without end.
LIMITS = """ulimit -t "$0"; ulimit -S -v 8000000; ulimit -S -f 40000000
timeout -k 5 "$@" >/dev/null 2>&1; code=$?; times; exit $code"""


def seconds_of(command: list[str | Path], seconds: float = SECONDS, **variables: str | Path) -> float | None:
    """Return a command's processor time; None if it fails or takes much more than the time that it takes without a change.

    Memory that it takes is not 0, so that a loop that goes one too far reads something.
    """
    settings = {"KVMILL_TEST_SLOW": "1", "KVMILL_TEST_STOP": "1", "MALLOC_PERTURB_": "165", **variables}
    try:
        used = run(["sh", "-c", LIMITS, str(int(5 + 3 * seconds)), str(SECONDS), *command], **settings)
    except Failed:
        return None
    return sum(60 * int(minutes) + float(more) for minutes, more in re.findall(r"(\d+)m([\d.]+)s", used.splitlines()[-1]))


def passes(command: list[str | Path], seconds: float, **variables: str | Path) -> bool:
    return seconds_of(command, seconds, **variables) is not None


# ---- Changes ----


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


class Unchanged(Failed):
    """No kernel differs."""


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
        raise Unchanged("no kernel that is made for its program has it")


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
        seconds = usual[good_program(check, program).name]
        if not passes([built], seconds, **check.variables, **made.libraries):
            return program
    return None


def passes_unchanged(check: Check, program: str) -> tuple[bool, float]:
    """Return whether a program passes without a change, and its seconds, by which it is limited with one."""
    built = good_program(check, program)
    link(program, built, [], [o for kernels in check.linked() for o in good_objects(kernels)])
    seconds = seconds_of([built], **check.variables, **good_libraries(check))
    usual[built.name] = seconds or 0
    return seconds is not None, usual[built.name]
