"""Contenders that do the same work take turns: which of them runs when, and for how long.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

Run = Callable[[], None]
ROUND_SECONDS = 0.004
PAUSE_SECONDS = 0.005
MOST_WAITED = 0.02  # of a turn
TRIES = 4


@dataclass(frozen=True)
class Contender:
    whose: str
    name: str
    runs: list[Run]  # on each set of arrays
    result: str  # the name of the array with the result

    @property
    def stores(self) -> bool:
        return self.name != "attention"


def wait_until_idle() -> None:
    """Waits for threads of the last turn that still spin: those of ONNX Runtime do so for about 50
    ms."""
    busy = PAUSE_SECONDS
    while busy > PAUSE_SECONDS / 10:
        before = time.process_time()
        time.sleep(PAUSE_SECONDS)
        busy = time.process_time() - before


def seconds_waited() -> float:
    """How long other processes have kept this process's threads from running, according to
    Linux."""
    threads = Path("/proc/self/task").glob("*/schedstat")
    return sum(int(path.read_text("ascii").split()[1]) for path in threads) / 1e9


def take_turn(runs: Iterator[Run], count: int, clock: Callable[[], float]) -> tuple[float, float]:
    """Seconds per run, and the share of the time that threads waited for a processor."""
    wait_until_idle()
    next(runs)()
    turn = [next(runs) for _ in range(count)]
    waited, begin = seconds_waited(), clock()
    for run in turn:
        run()
    seconds = clock() - begin
    return seconds / count, (seconds_waited() - waited) / seconds


def take_quiet_turn(
    runs: Iterator[Run], count: int, clock: Callable[[], float]
) -> tuple[float, bool]:
    """Seconds per run, and whether all tries were disturbed.  Processor time does not include
    waiting, so it needs no second try."""
    for _ in range(TRIES):
        seconds, waited = take_turn(runs, count, clock)
        if waited <= MOST_WAITED or clock is time.thread_time:
            return seconds, False
    return seconds, True


class Walk:
    """Lets all contenders share one sequence of array sets, so that each run uses the next set."""

    def __init__(self, count: int) -> None:
        self._numbers = cycle(range(count))

    def runs(self, contender: Contender) -> Iterator[Run]:
        return (contender.runs[number] for number in self._numbers)


def times_of(
    contenders: Sequence[Contender], rounds: int, clock: Callable[[], float]
) -> tuple[dict[str, dict[str, float]], int]:
    """Medians by contender, and the number of turns that other processes disturbed."""
    walk = Walk(len(contenders[0].runs))
    sides = [walk.runs(contender) for contender in contenders]
    counts = [max(1, round(ROUND_SECONDS / take_quiet_turn(side, 1, clock)[0])) for side in sides]
    turns = list(zip(sides, counts, strict=True))
    times = [
        [take_quiet_turn(side, count, clock) for side, count in turns] for _ in range(rounds)
    ]
    medians: dict[str, dict[str, float]] = {contender.whose: {} for contender in contenders}
    for contender, side in zip(contenders, zip(*times, strict=True), strict=True):
        medians[contender.whose][contender.name] = statistics.median(time for time, _ in side)
    return medians, sum(disturbed for turn in times for _, disturbed in turn)
