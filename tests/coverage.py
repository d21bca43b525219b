"""What did the tests run?  Adds up the counts of a build with gcov, and prints lines and branches per room.

coverage.py SOURCE BUILD OUT.  OUT/lines.txt: every line that no test ran, with the reason if
tests/tables/coverage/unrun.tsv has one.  OUT/branches.txt: the same of branches, on lines that were run.  A room below its
row of tests/tables/coverage/floors.tsv is an error, unless KVMILL_COVERAGE_FLOORS=no.  The rows are those of the lane that
KVMILL_COVERAGE_LANE names: all tests, or programs.

A row of unrun.tsv: "line" or "branch", file ("gen/*": several), function ("*": any), a text that the line has ("*": any), and the reason.  A reason for
a branch is one, too, for the lines that are only run after it.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

ROOMS = ("base", "defs", "ops", "runtime", "mlir", "spec", "gen", "import", "libspecs", "tune", "tools")
AT_ONCE = 40  # objects that one gcov reads


@dataclass
class Line:
    """A line of a file, as often as it was compiled into objects."""

    function: str = ""
    runs: int = 0
    branches: list[int] = field(default_factory=list)

    def add(self, counted: dict) -> None:
        self.function = self.function or counted.get("function_name", "")
        self.runs += counted["count"]
        taken = [branch["count"] for branch in counted["branches"]]
        # An inline function of a header has the same branches in every object; what a compiler left out of one is not there.
        self.branches += [0] * (len(taken) - len(self.branches))
        for i, count in enumerate(taken):
            self.branches[i] += count


@dataclass(frozen=True)
class Row:
    """A row of unrun.tsv: lines, or branches, that tests cannot take, or need not."""

    what: str
    file: str
    function: str
    text: str
    reason: str

    def says(self, what: str, file: str, function: str, text: str) -> bool:
        return self.what == what and fnmatch(file, self.file) and self.function in ("*", function) and (self.text == "*" or self.text in text)


@dataclass
class Sums:
    """Of one room: what there is, what was run, and what has a reason not to be."""

    lines: int = 0
    run: int = 0
    excused: int = 0
    branches: int = 0
    taken: int = 0
    branches_excused: int = 0

    def percent(self) -> tuple[float, float]:
        """Return the share of lines, and of branches, among those without a reason."""
        return share(self.run, self.lines - self.excused), share(self.taken, self.branches - self.branches_excused)


def share(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 100.0


# ---- Counts ----


def reports(build: Path, objects: list[Path]) -> Iterator[dict]:
    """Yield what gcov knows of each source file of each object."""
    gcov = os.environ.get("GCOV", "gcov")
    command = [gcov, "--json-format", "--stdout", "--branch-probabilities", *map(str, objects)]
    done = subprocess.run(command, cwd=build, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        sys.exit(f"coverage: {gcov} failed: {done.stderr[-500:]}")
    for text in done.stdout.splitlines():
        if text.startswith("{"):
            yield from json.loads(text)["files"]


def read_counts(source: Path, build: Path) -> dict[str, dict[int, Line]]:
    """Return the lines of each file of the rooms, by the file's name in the source tree."""
    objects = sorted(path for room in ROOMS for path in (build / room).rglob("*.gcno"))
    if not objects:
        sys.exit(f"coverage: {build} has no file *.gcno: it was not compiled with --coverage")
    files: dict[str, dict[int, Line]] = defaultdict(lambda: defaultdict(Line))
    parts = [objects[i : i + AT_ONCE] for i in range(0, len(objects), AT_ONCE)]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for file in (file for part in pool.map(lambda part: list(reports(build, part)), parts) for file in part):
            # The compiler may have been told to call the source tree "." (configure.ac).
            name = os.path.relpath(source / file["file"], source)
            if name.split("/")[0] in ROOMS and (source / name).exists():
                for counted in file["lines"]:
                    files[name][counted["line_number"]].add(counted)
    return files


# ---- Reasons ----


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))


@dataclass
class Judge:
    """Looks up reasons, and counts what each row explains."""

    rows: list[Row]
    used: Counter = field(default_factory=Counter)

    def reason(self, what: str, file: str, function: str, text: str) -> str:
        for row in self.rows:
            if row.says(what, file, function, text):
                self.used[row] += 1
                return row.reason
        return ""

    def add_file(self, name: str, text: list[str], lines: dict[int, Line], sums: Sums) -> Iterator[tuple[str, str]]:
        """Add up a file.  Yield which list, and its line, for all that was not run."""
        inherited = function = ""  # the reason of the branch before, in this function
        for number, line in sorted(lines.items()):
            words = text[number - 1].strip() if number <= len(text) else ""
            place = f"{name}:{number}: {line.function}: {words}"
            missed = line.branches.count(0)
            inherited = inherited if line.function == function else ""
            function = line.function
            sums.lines += 1
            sums.run += line.runs > 0
            sums.branches += len(line.branches)
            sums.taken += len(line.branches) - missed
            branch_reason = self.reason("branch", name, line.function, words) if missed else ""
            if line.runs == 0:
                inherited = self.reason("line", name, line.function, words) or inherited
                sums.excused += inherited != ""
                sums.branches_excused += missed if inherited or branch_reason else 0
                yield "lines", f"{place}{'  # ' + inherited if inherited else ''}"
                continue
            inherited = branch_reason
            sums.branches_excused += missed if branch_reason else 0
            if missed:
                yield "branches", f"{place}  # {branch_reason or f'{missed} of {len(line.branches)} never taken'}"


# ---- Result ----


def print_sums(sums: dict[str, Sums]) -> None:
    print(f"{'room':<9}{'lines':>7}{'run':>7}{'%':>7}{'reason':>8}{'branches':>10}{'taken':>7}{'%':>7}{'reason':>8}")
    for room, one in sums.items():
        lines, branches = share(one.run, one.lines), share(one.taken, one.branches)
        print(
            f"{room:<9}{one.lines:>7}{one.run:>7}{lines:>7.1f}{one.excused:>8}"
            f"{one.branches:>10}{one.taken:>7}{branches:>7.1f}{one.branches_excused:>8}"
        )
    print("of what has no reason:")
    for room, one in sums.items():
        print("{:<9}{:.1f} % of lines, {:.1f} % of branches".format(room, *one.percent()))


def below(floors: Iterable[dict[str, str]], sums: dict[str, Sums]) -> int:
    """Print which room is below its floor; return how many are."""
    count = 0
    lane = os.environ.get("KVMILL_COVERAGE_LANE", "all")
    for floor in (floor for floor in floors if floor["lane"] == lane):
        found = sums[floor["room"]].percent()
        for what, value in zip(("lines", "branches"), found):
            if value < float(floor[what]):
                print(f"coverage: {floor['room']}: {value:.1f} % of {what}; accepted: at least {floor[what]}")
                count += 1
    return count


def add_up(all_of: dict[str, Sums]) -> Sums:
    total = Sums()
    for one in all_of.values():
        for name, value in vars(one).items():
            setattr(total, name, getattr(total, name) + value)
    return total


def main(source: Path, build: Path, out: Path) -> int:
    tables = source / "tests/tables/coverage"
    judge = Judge([Row(**row) for row in table(tables / "unrun.tsv")])
    sums = {room: Sums() for room in ROOMS}
    lists: dict[str, list[str]] = {"lines": [], "branches": []}
    for name, lines in sorted(read_counts(source, build).items()):
        text = (source / name).read_text().splitlines()
        for kind, entry in judge.add_file(name, text, lines, sums[name.split("/")[0]]):
            lists[kind].append(entry)
    for kind, entries in lists.items():
        (out / f"{kind}.txt").write_text("".join(f"{entry}\n" for entry in entries))
    sums["all"] = add_up(sums)
    print_sums(sums)
    for row in judge.rows:
        if not judge.used[row]:
            print(f"coverage: unrun.tsv: {row.file}, {row.function}, {row.text}: explains nothing")
    print(f"what was never run: {out}/lines.txt and branches.txt")
    return 1 if os.environ.get("KVMILL_COVERAGE_FLOORS") != "no" and below(table(tables / "floors.tsv"), sums) else 0


if __name__ == "__main__":
    sys.exit(main(*(Path(word).resolve() for word in sys.argv[1:4])))
