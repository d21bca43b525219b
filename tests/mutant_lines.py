"""Which programs and scripts run a line: the sources are compiled for gcov once, and everything runs once with them.

The result is kept in the folder of the mutants.  A program runs again once the sources or its objects have changed; tables
that it reads do not count.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fault_checks import BUILD, SCRATCH, SOURCE, Failed, run
from planted import LIBRARIES, SECONDS, compile_source, link, link_objects, seconds_of

FOLDERS = ["base", "defs", "ops", "runtime", "mlir", "spec", "gen", "import", "tune", "tools"]
# Scripts that run the command for some seconds, and compile little.
SCRIPTS = ["command", "run", "json", "report", "db", "onnx", "configs", "choice", "completion", "generated"]
COVERED = SCRATCH / "covered"


@dataclass
class Lines:
    """Files with, for each line, what runs it; and the seconds that each of those takes."""

    of: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]


def sources() -> list[Path]:
    """Return the C files of the libraries, relative to the source tree."""
    found = []
    for path in sorted(path.relative_to(SOURCE) for folder in FOLDERS for path in (SOURCE / folder).rglob("*.c")):
        objects = (BUILD / path.parent).glob(f"*{path.stem}.o")
        if any(re.fullmatch(rf"(lib\w+_la-)?{path.stem}", made.stem) for made in objects):
            found.append(path)
    return found


def name_of(path: Path) -> str:
    return str(path.with_suffix("")).replace("/", "+")


# ---- Programs and scripts ----


def programs() -> list[str]:
    return sorted({made.name.split("-")[0] for made in (BUILD / "tests").glob("t_*-*.o")})


def link_command(place: Path, own: list[Path], libraries: list[Path] = LIBRARIES) -> Path:
    return link_objects(place / "kvmill", [BUILD / "tools/kvmill-main.o", *own], libraries)


def build_tree(place: Path) -> Path:
    """Make a build directory like the build's, in which the command is that of `place`."""
    tree = place / "build"
    (tree / "tests").mkdir(parents=True)
    entries = [entry for entry in BUILD.iterdir() if entry.name not in ("kvmill", "tests", "mutants")]
    for entry in [*entries, *(entry for entry in (BUILD / "tests").iterdir() if not entry.suffix)]:
        (tree / entry.relative_to(BUILD)).symlink_to(entry)
    (tree / "kvmill").symlink_to(place / "kvmill")
    text = (BUILD / "tests/environment.sh").read_text()
    (tree / "tests/environment.sh").write_text(f"{text}builddir={tree}\nkvmill={tree}/kvmill\n")
    return tree


def seconds_of_script(name: str, tree: Path, seconds: float = SECONDS, **variables: str | Path) -> float | None:
    settings = {"builddir": tree, "KVMILL_TEXTS_ALONE": "1", **variables}
    return seconds_of(["sh", SOURCE / f"tests/{name}"], seconds, **settings)


# ---- Counts ----


def compile_covered(path: Path) -> Path:
    return compile_source(SOURCE, path, COVERED / f"{name_of(path)}.o", "-O0", "--coverage")


def cover(pool: ThreadPoolExecutor) -> None:
    """Compile all sources for gcov."""
    COVERED.mkdir()
    run(["ar", "rcs", COVERED / "libcovered.a", *pool.map(compile_covered, sources())])


def lines_run(counts: Path) -> dict[str, list[int]]:
    """Return the lines that were run, from the counts in a folder."""
    names = [path.stem for path in counts.glob("*.gcda")]
    found: dict[str, list[int]] = {}
    for name in names:
        (counts / f"{name}.gcno").symlink_to(COVERED / f"{name}.gcno")
    texts = run(["sh", "-c", 'cd "$0" && gcov -t *.gcda', counts]) if names else ""
    for line in texts.splitlines():
        count, number, text = (line.split(":", 2) + ["", ""])[:3]
        if text.startswith("Source:"):
            path = Path(text.removeprefix("Source:"))
            lines = found.setdefault(str(path.relative_to(SOURCE)), []) if SOURCE in path.parents else []
        elif count.strip().rstrip("*").isdigit():
            lines.append(int(number))
    return {path: lines for path, lines in found.items() if path.endswith(".c")}


def measure(name: str, place: Path) -> tuple[float, dict[str, list[int]]]:
    """Run a program or script without counts, for its time, and with counts."""
    counts = place / "counts"
    counts.mkdir(parents=True)
    libraries = [COVERED / "libcovered.a", "-lgcov", *LIBRARIES]
    variables = {"GCOV_PREFIX": counts, "GCOV_PREFIX_STRIP": str(len(COVERED.parts) - 1)}
    if name.endswith(".test"):
        (place / "covered").mkdir()
        link_command(place, [])
        link_command(place / "covered", [], libraries)
        plain, counted = build_tree(place), build_tree(place / "covered")
        seconds = seconds_of_script(name, plain)
        good = seconds is not None and seconds_of_script(name, counted, **variables) is not None
    else:
        built, covered = link(name, place / name, [], []), link(name, place / "covered", [], [], libraries)
        seconds = seconds_of([built])
        good = seconds is not None
        seconds_of([covered], **variables)  # what counts is what it runs: it may notice that it is slow
    if not good:
        raise Failed("fails without a change")
    return seconds, lines_run(counts)


# ---- The map ----


def key_of(name: str, of_sources: str) -> str:
    own = [SOURCE / f"tests/{name}"] if name.endswith(".test") else sorted((BUILD / "tests").glob(f"{name}-*.o"))
    shared = [BUILD / f".libs/lib{name}.a" for name in ("test", "fuzz") if name == "test" or name in own[0].name]
    texts = [path.read_bytes() for path in [*own, *shared]]
    return hashlib.sha256(of_sources.encode() + b"".join(texts)).hexdigest()


def known_of(name: str, key: str) -> dict | None:
    kept = SCRATCH / "lines" / f"{name}.json"
    known = json.loads(kept.read_text()) if kept.exists() else None
    return known if known and known["key"] == key else None


def learn(name: str, key: str) -> None:
    """Keep what a program or script runs, and how long it takes, unless it fails."""
    place = SCRATCH / "measured" / name
    try:
        seconds, lines = measure(name, place)
    except Failed as error:
        print(f"# {name} is left out: {str(error)[-500:]}", flush=True)
    else:
        known = {"key": key, "seconds": seconds, "lines": lines}
        (SCRATCH / "lines" / f"{name}.json").write_text(json.dumps(known))
        print(f"# {name}: {seconds:.1f} s, lines of {len(lines)} files", flush=True)
    shutil.rmtree(place, ignore_errors=True)


def learn_lines(pool: ThreadPoolExecutor) -> Lines:
    (SCRATCH / "lines").mkdir(exist_ok=True)
    of_sources = hashlib.sha256(b"".join((SOURCE / path).read_bytes() for path in sources())).hexdigest()
    names = programs() + [f"{name}.test" for name in SCRIPTS]
    keys = {name: key_of(name, of_sources) for name in names}
    unknown = [name for name in names if known_of(name, keys[name]) is None]
    if unknown:
        cover(pool)
        list(pool.map(lambda name: learn(name, keys[name]), unknown))
    result = Lines({}, {})
    for name in names:
        if known := known_of(name, keys[name]):
            result.seconds[name] = known["seconds"]
            for path, lines in known["lines"].items():
                of = result.of.setdefault(path, {})
                for line in lines:
                    of.setdefault(line, []).append(name)
    return result
