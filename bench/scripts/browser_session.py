#!/usr/bin/env python3
"""A browser session in QtWebEngine (Chromium): the private memory of all its processes.

    bench/scripts/browser_session.py LIBRARY ... [--rounds N] [--python PYTHON]

LIBRARY is a shared library to preload, or the word `system`. PYTHON is an interpreter that has PyQt6's WebEngine (Debian:
python3-pyqt6.qtwebengine). Opens four tabs, takes each through pages that build and drop large documents, and then stays idle.
Prints the processes that run at the end, the sum of their Private_Dirty, Pss and shared memory in MiB, and CPU seconds.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

from memory import cpu_seconds, environment

PAGE = """<!doctype html><title>page</title><body><script>
let seed = SEED; function random() { seed = (seed * 1103515245 + 12345) & 0x7fffffff; return seed / 0x7fffffff; }
function text(n) { let t = ''; while (t.length < n) t += random().toString(36).slice(2); return t; }
const kept = [];
function build(rows) {
  const table = document.createElement('table');
  for (let at = 0; at < rows; at++) {
    const row = table.insertRow();
    for (let cell = 0; cell < 6; cell++) { const c = row.insertCell(); c.textContent = text(5 + random() * 60); c.className = 'c' + at % 97; }
    if (at % 10 === 0) { const style = document.createElement('style'); style.textContent = `.c${at} { color: rgb(${at % 255}, 1, 2); padding: ${at % 5}px }`; row.append(style); }
  }
  document.body.append(table); return table;
}
let turn = 0;
function step() {
  const table = build(400);
  kept.push({ text: text(200), list: Array.from({ length: 200 }, () => text(20)) });
  const canvas = document.createElement('canvas'); canvas.width = canvas.height = 200; canvas.getContext('2d').fillText(text(20), 9, 9);
  document.body.append(canvas);
  const svg = new DOMParser().parseFromString('<svg xmlns="http://www.w3.org/2000/svg">' + '<path d="M0 0L9 9"/>'.repeat(300) + '</svg>', 'image/svg+xml');
  document.body.append(document.importNode(svg.documentElement, true));
  if (document.body.children.length > 12) for (const child of [...document.body.children].filter((c, at) => at % 4)) child.remove();
  document.body.offsetHeight;
  if (++turn < 10) setTimeout(step, 10); else document.title = 'done';
}
step();
</script>"""

SESSION = """
import sys
from PyQt6.QtCore import QTimer, QUrl
from PyQt6.QtWidgets import QApplication, QTabWidget
from PyQt6.QtWebEngineWidgets import QWebEngineView
application = QApplication(sys.argv)
tabs, views, left = QTabWidget(), [], [0]
pages = sys.argv[1:]
def open_next(view, remaining):
    if not remaining:
        left[0] -= 1
        if left[0] == 0:
            print('idle', flush=True)
        return
    view.titleChanged.disconnect() if view.receivers(view.titleChanged) else None
    view.titleChanged.connect(lambda title: title == 'done' and QTimer.singleShot(50, lambda: open_next(view, remaining[1:])))
    view.load(QUrl.fromLocalFile(remaining[0]))
for number in range(4):
    view = QWebEngineView(); tabs.addTab(view, str(number)); views.append(view); left[0] += 1
tabs.resize(1000, 700); tabs.show()
for number, view in enumerate(views):
    open_next(view, pages[number:] + pages[:number])
application.exec()
"""

FLAGS = "--no-sandbox --disable-gpu --process-per-tab --disable-features=Vulkan"


def descendants(root):
    """The processes below `root`, and itself."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat:
                parents[int(name)] = int(stat.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [root]
    for process in found:
        found.extend(child for child, parent in parents.items() if parent == process)
    return found


def totals(processes):
    """MiB by name, over all processes."""
    sums = dict.fromkeys(("Private_Dirty", "Pss", "Pss_Anon", "Pss_Shmem"), 0.0)
    for process in processes:
        with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as rollup:
            for line in rollup:
                name, _, rest = line.partition(":")
                if name in sums:
                    sums[name] += int(rest.split()[0]) / 1024
    return sums


def run(library, python, idle):
    with tempfile.TemporaryDirectory() as folder:
        pages = []
        for number in range(4):
            pages.append(os.path.join(folder, f"{number}.html"))
            with open(pages[-1], "w", encoding="ascii") as page:
                page.write(PAGE.replace("SEED", str(number + 1)))
        settings = {"QT_QPA_PLATFORM": "offscreen", "QTWEBENGINE_CHROMIUM_FLAGS": FLAGS, "HOME": folder,
                    "XDG_RUNTIME_DIR": folder, "QTWEBENGINE_DISABLE_SANDBOX": "1"}
        log = open(os.path.join(folder, "log"), "wb")
        browser = subprocess.Popen([python, "-c", SESSION, *pages], env=environment(library) | settings,
                                   stdout=subprocess.PIPE, stderr=log)
        try:
            start = time.monotonic()
            if browser.stdout.readline() != b"idle\n":
                with open(log.name, "r", encoding="utf-8", errors="replace") as said:
                    sys.exit(f"{library}: the session ended early: {said.read()[-1000:]}")
            seconds = time.monotonic() - start
            time.sleep(idle)
            processes = descendants(browser.pid)
            return processes, totals(processes), seconds, sum(map(cpu_seconds, processes))
        finally:
            for process in reversed(descendants(browser.pid)):
                try:
                    os.kill(process, 9)
                except OSError:
                    continue
            browser.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="+", metavar="LIBRARY")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--idle", type=float, default=5, help="seconds between the last page and the look (5)")
    parser.add_argument("--python", default="/usr/bin/python3")
    given = parser.parse_args()
    print(f"{'library':32} {'processes':>9} {'private':>9} {'Pss':>9} {'anon':>9} {'shmem':>9} {'wall s':>7} {'CPU s':>7}")
    for _ in range(given.rounds):
        for library in given.libraries:
            processes, sums, seconds, cpu = run(library, given.python, given.idle)
            print(f"{os.path.basename(library):32} {len(processes):9} {sums['Private_Dirty']:9.1f} {sums['Pss']:9.1f}"
                  f" {sums['Pss_Anon']:9.1f} {sums['Pss_Shmem']:9.1f} {seconds:7.1f} {cpu:7.2f}", flush=True)


if __name__ == "__main__":
    main()
