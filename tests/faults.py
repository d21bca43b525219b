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
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fault_checks import BUILD, CALLS_PYTHON, CHECKS, SCRATCH, SOURCE, Check, Failed, run
from planted import SECONDS, good_program, make_again, make_kernels, mirror, noticed_by, passes_unchanged, plant

sys.path.insert(0, str(SOURCE / "tests/conformance"))
from tap import Tap  # noqa: E402

SHARES = 96


def check_of(fault: dict) -> Check:
    return CHECKS.get(fault["program"]) or Check([fault["program"]])


# ---- Random calls of Python ----


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
    passed, seconds = passes_unchanged(check, program)
    tap.result(passed, f"{program} without a fault passes, {seconds:.1f} s")


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
