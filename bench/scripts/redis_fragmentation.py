#!/usr/bin/env python3
"""Redis with a full cache whose values change their size: how much memory is left over.

    bench/scripts/redis_fragmentation.py LIBRARY ... [--idle SECONDS] [--rounds N]

LIBRARY is a shared library to preload, or the word `system`; settings come by the environment, such as MESHHEAP_... Prints for
each, after the inserts and after the idle time: Pss and Rss in MiB; the inserts' wall time; the server's CPU seconds; and the
longest time that a request had to wait during the idle time, asked a thousand times a second.
"""

import argparse
import os
import signal
import socket
import subprocess
import tempfile
import time

from memory import cpu_seconds, environment, memory

SETTINGS = """port 0
save ""
hz 10
maxmemory-samples 10
activedefrag no
enable-debug-command yes
loglevel warning
unixsocket {folder}/socket
dir {folder}
"""

FEED = ["config set maxmemory 100mb", "config set maxmemory-policy allkeys-lru", "debug populate 700000 asdf 240",
        "debug populate 170000 asdf 492"]


class Client:
    """A connection that sends a line and waits for the answer's first line."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)

    def ask(self, line):
        self.socket.sendall(line.encode() + b"\r\n")
        answer = b""
        while not answer.endswith(b"\r\n"):
            answer += self.socket.recv(4096)
        if answer.startswith(b"-"):
            raise RuntimeError(f"{line}: {answer.decode()}")
        return answer


def connect(path):
    for _ in range(500):
        try:
            return Client(path)
        except OSError:
            time.sleep(0.02)
    raise RuntimeError("the server does not answer")


def longest_wait(client, seconds):
    """The longest answer time in milliseconds of a request that costs nothing."""
    end, longest = time.monotonic() + seconds, 0.0
    while time.monotonic() < end:
        before = time.monotonic()
        client.ask("PING")
        longest = max(longest, time.monotonic() - before)
        time.sleep(0.001)
    return longest * 1000


def run(library, idle):
    with tempfile.TemporaryDirectory() as folder:
        configuration = os.path.join(folder, "redis.conf")
        with open(configuration, "w", encoding="ascii") as file:
            file.write(SETTINGS.format(folder=folder))
        server = subprocess.Popen(["redis-server", configuration], env=environment(library), stdout=subprocess.DEVNULL)
        try:
            client = connect(os.path.join(folder, "socket"))
            start = time.monotonic()
            for line in FEED:
                client.ask(line)
            inserted = time.monotonic() - start
            after_feed = memory(server.pid)
            quiet = max(0.0, idle - (time.monotonic() - start))
            wait = longest_wait(client, quiet)
            return after_feed, memory(server.pid), inserted, cpu_seconds(server.pid), wait
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="+", metavar="LIBRARY")
    parser.add_argument("--idle", type=float, default=10, help="seconds from the first insert to the last look (10)")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    print(f"{'library':32} {'Pss fed':>9} {'Pss end':>9} {'Rss end':>9} {'insert s':>9} {'CPU s':>7} {'wait ms':>8}")
    for _ in range(given.rounds):
        for library in given.libraries:
            fed, end, inserted, cpu, wait = run(library, given.idle)
            print(f"{os.path.basename(library):32} {fed[0]:9.1f} {end[0]:9.1f} {end[1]:9.1f} {inserted:9.2f} {cpu:7.2f}"
                  f" {wait:8.2f}", flush=True)


if __name__ == "__main__":
    main()
