"""Runs commands with and without a library in front of malloc, and measures them."""

import os
import signal
import subprocess
import threading
import time

from memory import environment as preloading

# The largest a program may write before it counts as broken.
MOST_OUTPUT_BYTES = 64 << 20
TIMEOUT_SECONDS = 600


def environment(library, extra=None):
    """The environment of a run: the library, and what makes output repeatable."""
    repeatable = {"LC_ALL": "C", "PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0", "TZ": "UTC"}
    return preloading(library) | repeatable | (extra or {})


def descendants(root):
    """The processes below `root` that still run, and `root` itself."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stat:
                    parent = int(stat.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found = [root]
    for process in found:
        found.extend(children.get(process, []))
    return found


def memory_of(processes):
    """Bytes of anonymous and shared memory: each page's share, so that aliases and forked pages count once."""
    total = 0
    for process in processes:
        try:
            with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as rollup:
                for line in rollup:
                    if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                        total += int(line.split()[1]) * 1024
        except OSError:
            continue
    return total


class MemoryWatch:
    """Looks at a tree of processes every few milliseconds, and keeps the most memory that it saw."""

    def __init__(self, root, period=0.02):
        self.peak = 0
        self.root = root
        self.period = period
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        while not self.over.wait(self.period):
            self.peak = max(self.peak, memory_of(descendants(self.root)))

    def stop(self):
        self.over.set()
        self.thread.join()
        return self.peak


class Process:
    """A child whose CPU time, with that of its own children, is known once it has ended."""

    def __init__(self, command, env, folder, watch=False):
        self.output_path = os.path.join(folder, ".output")
        with open(self.output_path, "wb") as output:
            self.child = subprocess.Popen(command, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=output,
                                          stderr=subprocess.STDOUT)
        self.memory = MemoryWatch(self.child.pid) if watch else None
        self.outcome = None

    def wait(self, timeout=TIMEOUT_SECONDS):
        """Waits for its end. Its output, its exit status, its CPU seconds, and the most memory that was seen."""
        killer = threading.Timer(timeout, self.child.kill)
        killer.start()
        _, status, usage = os.wait4(self.child.pid, 0)
        killer.cancel()
        self.child.returncode = os.waitstatus_to_exitcode(status)
        peak = self.memory.stop() if self.memory else 0
        with open(self.output_path, "rb") as output:
            text = output.read(MOST_OUTPUT_BYTES)
        return Outcome(text, self.child.returncode, usage.ru_utime + usage.ru_stime, peak)

    def end(self, how=signal.SIGTERM):
        """Asks it to end, and waits."""
        self.child.send_signal(how)
        return self.wait(60)


class Outcome:
    """What came of one run."""

    def __init__(self, output, status, cpu_seconds, peak_bytes):
        self.output = output
        self.status = status
        self.cpu_seconds = cpu_seconds
        self.peak_bytes = peak_bytes


class Run:
    """One run of one program: where it may write, with which library, how large the work is, and what is watched."""

    def __init__(self, folder, library, scale, watch):
        self.folder = folder
        self.library = library
        self.scale = scale
        self.watch = watch

    def start(self, command, **extra):
        return Process(command, environment(self.library, extra), self.folder, self.watch)

    def execute(self, command, **extra):
        return self.start(command, **extra).wait()

    def help(self, command, **extra):
        """A helper of the run, likewise under the library, which is not measured. Its output."""
        done = subprocess.run(command, env=environment(self.library, extra), cwd=self.folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_SECONDS, check=False)
        return done.stdout + f"status {done.returncode}\n".encode()

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


def until(succeeds, seconds=30):
    """Tries until it succeeds: servers take a moment until they listen."""
    end = time.monotonic() + seconds
    while True:
        try:
            return succeeds()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)
