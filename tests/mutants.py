"""Do the tests notice random changes?  Each mutant is a copy of the sources with one change, on a line that tests run; only
what runs the line is built and run.

COUNT mutants follow from SEED: three of four in C, the others in templates.  A mutant of a template counts if a kernel of
tests/fault_checks.py differs.  tests/tables/mutants.tsv has mutants that no test can notice, with the reason.  See
doc/design/tests.md.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock

from fault_checks import CHECKS, SCRATCH, SOURCE, Check, Failed
from mutant_lines import Lines, build_tree, learn_lines, link_command, name_of, seconds_of_script, sources
from mutant_places import Place, changed_lines, line_of, order, places
from planted import (
    Made,
    Unchanged,
    compile_source,
    link,
    make_kernels,
    make_kernels_again,
    mirror,
    noticed_by,
    passes,
    passes_unchanged,
)

# A mutant of these could stop or remove what is not its own.
DANGEROUS = re.compile(r"\b(kill|killpg|unlink|unlinkat|rmdir|remove|remove_tree|rename|renameat|nftw)\s*\(")
TEMPLATES_OF = 4  # every fourth mutant is one of a template
WORKERS = int(os.environ.get("KVMILL_MUTANTS_AT_ONCE") or len(os.sched_getaffinity(0)))
UNUSED = "no kernel has it"  # such a mutant does not count


@dataclass(frozen=True)
class Mutant:
    file: str
    place: Place
    line: int
    old: str
    new: str
    programs: tuple[str, ...] = ()  # that run the line, the fastest first

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.old} -> {self.new}"

    def write(self, folder: Path) -> None:
        text, path = (SOURCE / self.file).read_text(), folder / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text[: self.place.start] + self.place.to + text[self.place.end :])


# ---- Drawing ----


def places_in(path: Path, lines: dict[int, list[str]] | None, seconds: dict[str, float]) -> list[Mutant]:
    """Return all mutants of a file, of these lines if there are any."""
    text, found = (SOURCE / path).read_text(), []
    for place in places(text, path.suffix):
        line = line_of(text, place.start)
        if lines is None or line in lines:
            runs = tuple(sorted(lines[line], key=lambda name: seconds[name])) if lines else ()
            found.append(Mutant(str(path), place, line, *changed_lines(text, place), runs))
    return found


def in_random_order(seed: int, mutants: list[Mutant]) -> Iterator[Mutant]:
    return (mutants[i] for i in order(seed, len(mutants)))


def draw(seed: int, lines: Lines) -> Iterator[Mutant]:
    """Return all mutants in the order that the seed gives."""
    c = [path for path in sources() if not DANGEROUS.search((SOURCE / path).read_text())]
    of_c = [m for path in c for m in places_in(path, lines.of.get(str(path), {}), lines.seconds)]
    templates = sorted(path.relative_to(SOURCE) for path in (SOURCE / "templates").rglob("*.*") if path.suffix in (".h", ".m4"))
    of_templates = in_random_order(seed, [m for path in templates for m in places_in(path, None, {})])
    for number, mutant in enumerate(in_random_order(seed, of_c), 1):
        if number % (TEMPLATES_OF - 1) == 0 and (other := next(of_templates, None)):
            yield other
        yield mutant


# ---- Kernels ----

locks: dict[str, Lock] = {name: Lock() for name in CHECKS}
making = Lock()
made_kernels: set[int] = set()


@cache
def kernel_checks() -> list[str]:
    """Return the checks of kernels that this machine can make, the fastest first."""
    names = ["rows", "windows", "t_ffi", "gathers", "regions", "t_scores", "programs", "attention", "codes", "halves"]
    return [name for name in names if not CHECKS[name].missing()]


passing: dict[str, Check] = {}


def ready(name: str, pool: ThreadPoolExecutor) -> Check:
    """Return a check, after its kernels are made and its programs have passed without a change."""
    with locks[name]:
        if name not in passing:
            check = CHECKS[name]
            with making:
                for kernels in check.kernels:
                    if id(kernels) not in made_kernels:
                        make_kernels(kernels, pool)
                        made_kernels.add(id(kernels))
            good = [program for program in check.programs if passes_unchanged(check, program)[0]]
            passing[name] = Check(good, check.kernels, check.variables)
    return passing[name]


def noticed_by_kernels(place: Path, pool: ThreadPoolExecutor) -> str | None:
    """Return the program that fails with kernels that differ, "" if none fails, None if none differs."""
    differ = False
    for name in kernel_checks():
        check, made, folder = ready(name, pool), Made(), place / "kernels" / name
        folder.mkdir(parents=True)
        for entry in ("templates", "include", "kvmill"):
            if (place / entry).exists():
                (folder / entry).symlink_to(place / entry)
        try:
            make_kernels_again(check, folder, False, made)
        except Unchanged:
            continue
        differ = True
        if who := noticed_by(check, made, folder):
            return f"{who} ({name})"
    return "" if differ else None


def noticed_by_generator(place: Path, pool: ThreadPoolExecutor) -> str | None:
    mirror(place, "templates", "include")
    try:
        return noticed_by_kernels(place, pool)
    except Failed:
        return "generate, or the compiler"


# ---- Outcomes ----


def judge_template(mutant: Mutant, place: Path, pool: ThreadPoolExecutor) -> str:
    mirror(place, "templates", "include")
    mutant.write(place)
    who = noticed_by_kernels(place, pool)
    return UNUSED if who is None else f"killed by {who}" if who else "survived"


@cache
def unchanged_object(path: str) -> bytes:
    target = SCRATCH / "unchanged" / f"{name_of(Path(path))}.o"
    target.parent.mkdir(exist_ok=True)
    return compile_source(SOURCE, Path(path), target).read_bytes()


def judge_c(mutant: Mutant, lines: Lines, place: Path, pool: ThreadPoolExecutor) -> str:
    mutant.write(place)
    own = compile_source(place, Path(mutant.file))
    if own.read_bytes() == unchanged_object(mutant.file):
        return "same code"
    tree = None
    for name in mutant.programs:
        seconds = lines.seconds[name]
        if name.endswith(".test"):
            if tree is None:
                link_command(place, [own])
                tree = build_tree(place)
            good = seconds_of_script(name, tree, seconds) is not None
        else:
            good = passes([link(name, place / name, [own], [])], seconds)
        if not good:
            return f"killed by {name}"
    who = noticed_by_generator(place, pool) if mutant.file.startswith(("gen/", "spec/")) and tree is not None else None
    return f"killed by {who}" if who else "survived"


def judge(number: int, mutant: Mutant, lines: Lines, known: dict, pool: ThreadPoolExecutor) -> str:
    """Return what becomes of a mutant, with the time that it took."""
    place, start = SCRATCH / "changed" / str(number), time.monotonic()
    for old, new in ((mutant.old, mutant.new), (mutant.old, "")):
        if reason := known.get((mutant.file, old, new)):
            return f"equivalent ({reason})"
    try:
        is_template = mutant.file.endswith(".m4")
        outcome = judge_template(mutant, place, pool) if is_template else judge_c(mutant, lines, place, pool)
    except Failed:
        outcome = "did not compile"
    shutil.rmtree(place, ignore_errors=True)
    return f"{outcome}, {time.monotonic() - start:.0f} s"


def say(mutant: Mutant, outcome: str) -> str:
    more = f"; ran: {' '.join(mutant.programs)}" if outcome.startswith("survived") and mutant.programs else ""
    print(f"{outcome}: {mutant}{more}", flush=True)
    return re.split(r"[ ,]", outcome)[0]


def try_mutants(count: int, mutants: Iterator[Mutant], lines: Lines, known: dict) -> Counter:
    """Try mutants until `count` of them are some that count."""
    outcomes, number = Counter(), 0
    with ThreadPoolExecutor(WORKERS) as pool, ThreadPoolExecutor(WORKERS) as kernel_pool:
        while (left := count - outcomes.total()) > 0:
            batch = [m for _, m in zip(range(left), mutants)]
            jobs = [pool.submit(judge, number + i, m, lines, known, kernel_pool) for i, m in enumerate(batch)]
            number += len(batch)
            for mutant, job in zip(batch, jobs):
                if not job.result().startswith(UNUSED):
                    outcomes[say(mutant, job.result())] += 1
            if not batch:
                break
    return outcomes


# ---- The table of equivalents ----


def read_table() -> tuple[dict, list[str]]:
    """Return the reasons by file and lines, and entries whose text is not there any more."""
    with (SOURCE / "tests/tables/mutants.tsv").open(newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    lost = [f"{row['file']}: {row['from']}" for row in rows if row["from"] not in squeezed(row["file"])]
    return {(row["file"], row["from"], row["to"]): row["reason"] for row in rows}, lost


@cache
def squeezed(file: str) -> str:
    path = SOURCE / file
    return " ".join(path.read_text().split()) if path.exists() else ""


def main(count: int, seed: int) -> int:
    known, lost = read_table()
    for row in lost:
        print(f"tests/tables/mutants.tsv: the text is not there: {row}")
    with ThreadPoolExecutor(WORKERS) as pool:
        lines = learn_lines(pool)
    outcomes = try_mutants(count, draw(seed, lines), lines, known)
    tried = outcomes["killed"] + outcomes["survived"]
    share = 100 * outcomes["killed"] / tried if tried else 0
    used = os.times()
    print(
        f"{outcomes.total()} mutants, seed {seed}: {outcomes['killed']} killed, {outcomes['survived']} survived,"
        f" {outcomes['equivalent']} equivalent, {outcomes['same']} with the same code, {outcomes['did']} did not compile;"
        f" {share:.1f} % of those that differ are killed; {used.children_user + used.children_system:.0f} s of processor time"
    )
    return 1 if outcomes["survived"] or lost or not tried else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
