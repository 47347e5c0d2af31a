#!/usr/bin/env python3
"""Ruby with strings of doubling sizes, of which every fourth survives: peak and end of its memory.

    bench/scripts/ruby_strings.py LIBRARY ... [--rounds N]

LIBRARY is a shared library to preload, or the word `system`; settings come by the environment, such as MESHHEAP_... At most
128 MiB of strings live at once. Prints the highest and the last Pss in MiB, seen ten times a second, the wall time of the work
and the CPU seconds of the process.
"""

import argparse
import os
import subprocess

from memory import Watch, cpu_seconds, environment, memory

WORK = r"""
def fragment(size, available)
  kept = []
  while available >= size
    count = available / size
    strings = (0...count).map { |at| (at % 256).chr * (size - 16) }
    kept << (0...count).step(4).map { |at| strings[at] }
    strings = nil
    sleep 0.2
    GC.start(full_mark: true, immediate_sweep: true)
    size *= 2
    available -= count * size / 4
  end
  kept
end
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
kept = fragment(512, 128 << 20)
puts Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
$stdout.flush
sleep 1
puts kept.sum(&:size)
$stdout.flush
$stdin.read
"""


def run(library):
    ruby = subprocess.Popen(["ruby", "-e", WORK], env=environment(library), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    watch = Watch(ruby.pid)
    seconds = float(ruby.stdout.readline())
    ruby.stdout.readline()
    end, cpu = memory(ruby.pid)[0], cpu_seconds(ruby.pid)
    samples = watch.stop()
    ruby.stdin.close()
    ruby.wait()
    return max(end, *(pss for _, pss, _ in samples)), end, seconds, cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="+", metavar="LIBRARY")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    print(f"{'library':32} {'Pss peak':>9} {'Pss end':>9} {'wall s':>7} {'CPU s':>7}")
    for _ in range(given.rounds):
        for library in given.libraries:
            peak, end, wall, cpu = run(library)
            print(f"{os.path.basename(library):32} {peak:9.1f} {end:9.1f} {wall:7.2f} {cpu:7.2f}", flush=True)


if __name__ == "__main__":
    main()
