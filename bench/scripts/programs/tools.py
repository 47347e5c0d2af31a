"""Programs that run, print and end. Each is a function from a run to its outcome; `NEEDS` names what must be installed."""

import importlib.util
import sys

import sources

# The modules of Python's own test suite that allocate most.
PYTHON_SUITE = """test_list test_tuple test_dict test_set test_deque test_bytes test_bigmem test_memoryio test_array
test_unicode test_json test_re test_pickle test_gc test_weakref test_threading test_thread test_generators test_itertools
test_collections test_heapq test_sort test_zlib test_sqlite3 test_xml_etree test_ast test_decimal test_struct""".split()


def python(run):
    return run.execute([sys.executable, run.write("work.py", sources.PYTHON), str(run.scale)])


def python_by_malloc(run):
    return run.execute([sys.executable, run.write("work.py", sources.PYTHON), str(run.scale)], PYTHONMALLOC="malloc")


def python_suite(run):
    """Passes in both or fails in both: which tests those are may depend on the machine."""
    outcome = run.execute([sys.executable, "-m", "test", "-q", *PYTHON_SUITE])
    last = [line for line in outcome.output.splitlines() if line.startswith((b"Result:", b"== Tests result:"))]
    failed = [line for line in outcome.output.splitlines() if b"failed" in line and b"test_" in line]
    outcome.output = b"\n".join(last[-1:] + failed)
    return outcome


def perl(run):
    return run.execute(["perl", run.write("work.pl", sources.PERL), str(run.scale)])


def ruby(run):
    return run.execute(["ruby", run.write("work.rb", sources.RUBY), str(run.scale)])


def lua(run):
    return run.execute(["lua5.4", run.write("work.lua", sources.LUA), str(run.scale)])


def tcl(run):
    return run.execute(["tclsh", run.write("work.tcl", sources.TCL), str(run.scale)])


def node(run):
    return run.execute(["node", run.write("work.js", sources.NODE), str(run.scale)])


def java(run):
    return run.execute(["java", "-Xmx256m", run.write("Work.java", sources.JAVA), str(run.scale)])


def awk(run):
    return run.execute(["awk", "-f", run.write("work.awk", sources.AWK), "-v", f"scale={run.scale}"])


def sqlite(run):
    run.write("work.sql", sources.sqlite(run.scale))
    return run.execute(["sh", "-c", "sqlite3 :memory: < work.sql"])


def sort(run):
    lines = 150_000 * run.scale
    return run.execute(["sh", "-c", f"seq {lines} | sort -r --parallel=2 | cksum; seq {lines} | sort -n -k1.3 | cksum"])


def xz(run):
    return run.execute(["sh", "-c", f"seq {200_000 * run.scale} | xz -3 -T2 --block-size=1MiB | xz -d | cksum"])


def git(run):
    return run.execute(["sh", "-c", sources.git(run.scale)], GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1")


def gcc(run):
    run.write("work.c", sources.c(100 * run.scale))
    return run.execute(["sh", "-c", "gcc -O2 -S -o work.s work.c && cat work.s | cksum"])


def gxx(run):
    run.write("work.cc", sources.cxx(run.scale))
    return run.execute(["sh", "-c", "g++ -O1 -std=c++17 -S -o work.s work.cc && cat work.s | cksum"])


def clang(run):
    run.write("work.c", sources.c(100 * run.scale))
    return run.execute(["sh", "-c", "clang -O2 -S -o work.s work.c && cat work.s | cksum"])


def rustc(run):
    run.write("work.rs", sources.rust(8 * run.scale))
    return run.execute(["sh", "-c", "rustc -O -o work work.rs && ./work"])


def cargo(run):
    run.help(["mkdir", "-p", "src"])
    run.write("Cargo.toml", sources.CARGO)
    run.write("src/parts.rs", sources.rust(4 * run.scale).replace("fn main", "pub fn sum"))
    run.write("src/lib.rs", "pub mod parts;\n")
    run.write("src/main.rs", "fn main() { work::parts::sum() }\n")
    return run.execute(["sh", "-c", "cargo run --offline --quiet && cargo test --offline --quiet 2>&1 | grep -c ok"],
                       CARGO_TARGET_DIR="built")


def has_python_suite():
    return importlib.util.find_spec("test.test_dict") is not None


# Name, what must be installed, the function.
ALL = [
    ("python3", [], python),
    ("python3 (PYTHONMALLOC=malloc)", [], python_by_malloc),
    ("perl", ["perl"], perl),
    ("ruby", ["ruby"], ruby),
    ("lua", ["lua5.4"], lua),
    ("tcl", ["tclsh"], tcl),
    ("node", ["node"], node),
    ("java", ["java", "javac"], java),
    ("awk", ["awk"], awk),
    ("sqlite3", ["sqlite3"], sqlite),
    ("sort", ["sort"], sort),
    ("xz", ["xz"], xz),
    ("git", ["git"], git),
    ("gcc", ["gcc"], gcc),
    ("g++", ["g++"], gxx),
    ("clang", ["clang"], clang),
    ("rustc", ["rustc", "gcc"], rustc),
    ("cargo", ["cargo", "gcc"], cargo),
]

# Once each way: long, and its figures say little.
ONCE = [("python3 -m test", ["python3"], python_suite)]
