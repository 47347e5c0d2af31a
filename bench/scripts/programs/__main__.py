"""Real programs under a malloc of ours and under the system's: the same output, how much CPU time, how much memory.

    python3 bench/scripts/programs LIBRARY [--quick] [--only NAME ...]

A program that is not installed is named and skipped. The exit code is 1 if an output differs or a program fails under the
library only.
"""

import argparse
import math
import os
import shutil
import statistics
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import servers
import tools
from measure import Run

QUICK_SCALE, FULL_SCALE, FULL_ROUNDS = 1, 5, 3


def is_installed(name, needs):
    if name == "postgres" and not servers.has_postgres():
        return False
    if name == "python3 -m test" and not tools.has_python_suite():
        return False
    return all(shutil.which(need) for need in needs)


def run_once(work, library, scale, watch):
    """One run, in an empty folder that has the same name each time."""
    folder = os.path.join(tempfile.gettempdir(), f"meshheap-programs-{os.getuid()}")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    try:
        return work(Run(folder, library, scale, watch))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def difference(expected, found):
    """What a user would see differ; none if nothing."""
    if found.status != expected.status:
        return f"exit status {found.status}, not {expected.status}: {found.output[-500:].decode(errors='replace')}"
    if found.output != expected.output:
        at = next((n for n, (a, b) in enumerate(zip(expected.output, found.output)) if a != b), None)
        at = min(len(expected.output), len(found.output)) if at is None else at
        return f"output differs at byte {at}: {found.output[at:at + 80]!r}, not {expected.output[at:at + 80]!r}"
    return None


class Row:
    """A program's figures: CPU seconds and peak bytes, the system's and the library's."""

    def __init__(self, name, cpu, peak):
        self.name = name
        self.cpu = cpu
        self.peak = peak

    def __str__(self):
        mib = [peak / (1 << 20) for peak in self.peak]
        return (f"{self.name:32} {self.cpu[0]:8.2f} {self.cpu[1]:8.2f} {ratio(self.cpu):6.3f}"
                f" {mib[0]:9.1f} {mib[1]:9.1f} {ratio(self.peak):6.3f}")


def ratio(pair):
    return pair[1] / pair[0] if pair[0] and pair[1] else math.nan


def compare(name, work, library, scale, rounds):
    """Runs one program both ways in turn. A row of figures, or what differs."""
    cpu, peak = ([], []), [0, 0]
    expected = None
    # Being watched costs time: what is run more than once is watched in a round of its own.
    for turn in range(rounds + (rounds > 1)):
        watch = rounds == 1 or turn == rounds
        for side, chosen in enumerate(("system", library)):
            outcome = run_once(work, chosen, scale, watch)
            expected = expected or outcome
            wrong = difference(expected, outcome)
            if wrong:
                return f"{os.path.basename(chosen)}: {wrong}"
            if watch:
                peak[side] = outcome.peak_bytes
            if rounds == 1 or not watch:
                cpu[side].append(outcome.cpu_seconds)
    return Row(name, [statistics.median(times) for times in cpu], peak)


def geometric_mean(values):
    logarithms = [math.log(value) for value in values if not math.isnan(value)]
    return math.exp(statistics.fmean(logarithms)) if logarithms else math.nan


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--quick", action="store_true", help="small inputs, one round: less than a minute")
    parser.add_argument("--only", nargs="+", help="only programs whose names begin so")
    given = parser.parse_args()
    library = os.path.abspath(given.library)
    if not os.path.exists(library):
        parser.error(f"there is no {library}")
    chosen = tools.ALL + servers.ALL + ([] if given.quick else tools.ONCE)
    if given.only:
        chosen = [program for program in chosen if program[0].startswith(tuple(given.only))]
    print(f"{'':32} {'CPU s':>8} {'':8} {'':6} {'peak MiB':>9}")
    print(f"{'program':32} {'system':>8} {'library':>8} {'ratio':>6} {'system':>9} {'library':>9} {'ratio':>6}", flush=True)
    rows, wrong = [], []
    for name, needs, work in chosen:
        if not is_installed(name, needs):
            print(f"{name:32} skipped: not installed", flush=True)
            continue
        rounds = 1 if given.quick or work is tools.python_suite else FULL_ROUNDS
        result = compare(name, work, library, QUICK_SCALE if given.quick else FULL_SCALE, rounds)
        (rows if isinstance(result, Row) else wrong).append(result)
        print(result if isinstance(result, Row) else f"{name:32} WRONG: {result}", flush=True)
    if rows:
        cpu, memory = geometric_mean(ratio(row.cpu) for row in rows), geometric_mean(ratio(row.peak) for row in rows)
        print(f"{'geometric mean':32} {'':8} {'':8} {cpu:6.3f} {'':9} {'':9} {memory:6.3f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
