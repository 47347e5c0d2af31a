"""What the scripts here have in common: a process's memory, and its figures over time."""

import os
import threading
import time


def c_library():
    """The C library of this process, which is what programs have."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = (line.split()[-1] for line in maps)
        return next(path for path in paths if os.path.basename(path).startswith("libc.so"))


def environment(library):
    """This environment with `library` in front of malloc. "system" stands for the C library's malloc, also in programs that
    bring another, as Redis does. Settings (MESHHEAP_..., MALLOC_CONF) are the caller's."""
    return dict(os.environ, LD_PRELOAD=c_library() if library == "system" else os.path.abspath(library))


def memory(process):
    """Pss and Rss in MiB: a page that is shown twice counts once in the first."""
    figures = {}
    with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as rollup:
        for line in rollup:
            name, _, rest = line.partition(":")
            if name in ("Pss", "Rss"):
                figures[name] = int(rest.split()[0]) / 1024
    return figures["Pss"], figures["Rss"]


def cpu_seconds(process):
    """User and system time so far."""
    with open(f"/proc/{process}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Watch:
    """Looks at a process several times a second until it ends or is asked to stop."""

    def __init__(self, process, period=0.1):
        self.process = process
        self.period = period
        self.samples = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        start = time.monotonic()
        while not self.over.wait(self.period):
            try:
                self.samples.append((time.monotonic() - start, *memory(self.process)))
            except OSError:
                return

    def stop(self):
        self.over.set()
        self.thread.join()
        return self.samples
