//! Real programs give the same output under the library as without it.

use std::process::Command;

use crate::support::{is_installed, output, under_library};

/// Runs `program` with `arguments` both ways, if it is installed.
fn gives_the_same(program: &str, arguments: &[&str]) {
    if !is_installed(program) {
        return;
    }
    let expected = output(Command::new(program).args(arguments));
    let found = output(under_library(program).args(arguments));
    assert_eq!(found, expected, "{program}");
    assert!(!expected.is_empty(), "{program} says something");
}

#[test]
fn python() {
    let script = "
import collections, json, hashlib, threading, re
data = {str(n): [n, str(n) * (n % 50), {'n': n}] for n in range(30000)}
text = json.dumps(data, sort_keys=True)
print(hashlib.sha256(text.encode()).hexdigest(), len(json.loads(text)))
results = []
def work(k):
    results.append(sum(len(m) for m in re.findall(r'[0-9]+', text[k * 1000:k * 1000 + 200000])))
threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(results))
";
    gives_the_same("python3", &["-c", script]);
    if is_installed("python3") {
        let run = |command: &mut Command| output(command.args(["-c", script]).env("PYTHONMALLOC", "malloc"));
        assert_eq!(run(&mut under_library("python3")), run(&mut Command::new("python3")));
    }
}

#[test]
fn perl() {
    let script = "my %h; $h{$_ % 5000} .= $_ x ($_ % 7) for 1..200000; my $t = join ',', map { \"$_=\" . length $h{$_} } sort keys %h; print length $t, ' ', unpack('%32C*', $t), qq(\\n);";
    gives_the_same("perl", &["-e", script]);
}

#[test]
fn sqlite() {
    let script = "create table t(a integer primary key, b text); \
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 50000) \
        insert into t select i, hex(i * 7919) || substr('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 1, i % 40) from n; \
        create index u on t(b); delete from t where a % 3 = 0; vacuum; \
        select count(*), sum(length(b)), min(b), max(b) from t; select b, count(*) from t group by substr(b, 1, 2) order by 2, 1 limit 20;";
    gives_the_same("sqlite3", &[":memory:", script]);
}

#[test]
fn lua() {
    let script = "local t = {} for i = 1, 200000 do t[i % 20000] = ('x'):rep(i % 60) .. i end local n = 0 for _, v in pairs(t) do n = n + #v end print(n)";
    for program in ["lua", "lua5.4", "lua5.3"] {
        gives_the_same(program, &["-e", script]);
    }
}

#[test]
fn tcl_awk_and_sort() {
    let numbers = "BEGIN { for (i = 0; i < 100000; i++) { a[i % 9973] = a[i % 9973] i; } n = 0; for (k in a) n += length(a[k]); print n }";
    gives_the_same("awk", &[numbers]);
    gives_the_same("sh", &["-c", "seq 200000 | sort -r --parallel=4 | md5sum"]);
    gives_the_same("sh", &["-c", "seq 200000 | xz -T2 | xz -d | md5sum"]);
    if is_installed("tclsh") {
        let script = "echo 'for {set i 0} {$i < 100000} {incr i} { lappend l [string repeat x [expr {$i % 50}]]$i }; puts [llength $l]; puts [string length [join $l {}]]' | tclsh";
        gives_the_same("sh", &["-c", script]);
    }
}

#[test]
fn ruby_and_node() {
    let ruby =
        "a = (1..200000).map { |i| 'x' * (i % 60) + i.to_s }; a.select! { |s| s.size.odd? }; puts a.size, a.join.size";
    gives_the_same("ruby", &["-e", ruby]);
    let node = "const a = []; for (let i = 0; i < 200000; i++) a.push(Buffer.alloc(i % 900, 1)); console.log(a.reduce((n, b) => n + b.length, 0), JSON.stringify(a.slice(0, 50)).length)";
    gives_the_same("node", &["-e", node]);
}

#[test]
fn git() {
    // The package's own folder may be no repository, so one is made.
    let script = "set -e; d=$(mktemp -d); cd $d; git init -q; for i in $(seq 30); do seq $i 2000 > f$i; git add .; \
        git -c user.name=n -c user.email=e commit -q -m c$i; done; git gc -q; git fsck --strict 2>&1; git log --format=%s --stat | md5sum; \
        git diff HEAD~20 HEAD | md5sum; rm -rf $d";
    if is_installed("git") {
        gives_the_same("sh", &["-c", script]);
    }
}

#[test]
fn gcc_compiles_the_same_code() {
    let script = "for i in $(seq 300); do echo \"struct s$i { int a[$i]; }; int f$i(struct s$i *p, int n) { int t = 0; for (int k = 0; k < n; k++) t += p->a[k % $i] * k; return t; }\"; done \
        | gcc -O2 -x c -S -o - - | md5sum";
    if is_installed("gcc") {
        gives_the_same("sh", &["-c", script]);
    }
}

#[test]
fn rustc_compiles_a_program() {
    let script = "d=$(mktemp -d); echo 'fn main() { let v: Vec<String> = (0..1000).map(|n| n.to_string()).collect(); println!(\"{}\", v.concat().len()); }' > $d/a.rs; \
        rustc -o $d/a $d/a.rs && $d/a; rm -rf $d";
    if is_installed("rustc") {
        gives_the_same("sh", &["-c", script]);
    }
}

#[test]
fn java() {
    gives_the_same("java", &["-XshowSettings:none", "--version"]);
}
