"""What the programs work on. All of it prints sums of what it made, the same in each run."""

PYTHON = """
import hashlib, json, re, sys, threading
scale = int(sys.argv[1])
for turn in range(2 * scale):
    data = {str(n): [n, str(n) * (n % 50), {'n': n}] for n in range(30000)}
    text = json.dumps(data, sort_keys=True)
    again = json.loads(text)
    assert again == data
    words = sorted(re.findall(r'[0-9]+', text[turn:400000]), key=lambda w: (len(w), w))
    print(hashlib.sha256(text.encode()).hexdigest(), len(words), words[len(words) // 2][:20])
class Node:
    def __init__(self, value, left, right):
        self.value, self.left, self.right = value, left, right
def tree(depth):
    return Node(depth, tree(depth - 1), tree(depth - 1)) if depth else None
def count(node):
    return 1 + count(node.left) + count(node.right) if node else 0
results = []
threads = [threading.Thread(target=lambda: results.append(count(tree(13)))) for _ in range(4 * scale)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(results)
buffers = [bytearray(n) for n in range(1, 40000, 7)]
[buffer.extend(b'x' * 100) for buffer in buffers]
print(sum(map(len, buffers)))
"""

PERL = """
use strict; my $scale = $ARGV[0]; my %h; my $n = 150000 * $scale;
$h{$_ % 5000} .= $_ x ($_ % 7) for 1..$n;
my $t = join ',', map { "$_=" . length $h{$_} } sort keys %h;
print length $t, ' ', unpack('%32C*', $t), "\\n";
my @records = map { { id => $_, name => "name$_", tags => [ map { "t$_" } 1..($_ % 5) ] } } 1..(40000 * $scale);
my $sum = 0; $sum += $_->{id} * @{$_->{tags}} for grep { $_->{name} =~ /[13579]$/ } @records;
print "$sum\\n"; my $s = 'abc' x 1000; $s =~ s/(b)(c)/$2$1/g for 1..(100 * $scale); print length $s, "\\n";
"""

RUBY = """
scale = ARGV[0].to_i
(2 * scale).times do |turn|
  a = (1..120_000).map { |i| 'x' * (i % 60) + i.to_s }
  a.select! { |s| s.size.odd? }
  h = a.each_with_object(Hash.new { |k, v| k[v] = [] }) { |s, k| k[s.size] << s }
  puts a.size, a.join.size, h.keys.sort.first(5).inspect, h.values.map(&:size).sum
  puts a.first(20_000).map { |s| s.gsub(/x+/) { |m| m.size.to_s } }.join(',').sum
end
"""

LUA = """
local scale = tonumber(arg[1])
for turn = 1, 2 * scale do
  local t = {}
  for i = 1, 150000 do t[i % 20000] = ('x'):rep(i % 60) .. i end
  local n = 0 for _, v in pairs(t) do n = n + #v end
  local list = nil for i = 1, 200000 do list = { next = (i % 1000 ~= 0) and list or nil, value = i } end
  local parts = {} for i = 1, 50000 do parts[#parts + 1] = tostring(i):gsub('1', 'one') end
  print(turn, n, list.value, #table.concat(parts))
end
"""

TCL = """
for {set i 0} {$i < 100000 * [lindex $argv 0]} {incr i} {
    lappend l [string repeat x [expr {$i % 50}]]$i; dict lappend d [expr {$i % 977}] $i
}
puts [llength $l]; puts [string length [join $l {}]]; puts [dict size $d]; puts [llength [lsort -unique $l]]
"""

NODE = """
const scale = Number(process.argv[2]), zlib = require('zlib');
for (let turn = 0; turn < scale; turn++) {
  const a = []; for (let i = 0; i < 150000; i++) a.push(Buffer.alloc(i % 900, 1));
  const text = JSON.stringify(a.slice(0, 500));
  console.log(a.reduce((n, b) => n + b.length, 0), text.length, zlib.inflateSync(zlib.deflateSync(text)).length);
  const m = new Map(); for (let i = 0; i < 100000; i++) m.set('k' + i % 5000, [i, 'v' + i]);
  console.log(m.size, new Intl.NumberFormat('en').format(m.get('k7')[0]));
}
"""

JAVA = """
import java.util.*;
import java.util.zip.*;
public class Work {
    public static void main(String[] given) throws Exception {
        int scale = Integer.parseInt(given[0]);
        Map<String, List<Integer>> map = new TreeMap<>();
        for (int i = 0; i < 100000 * scale; i++) map.computeIfAbsent("k" + i % 5000, k -> new ArrayList<>()).add(i);
        System.out.println(map.size() + " " + map.get("k42").size());
        long sum = 0;
        for (int i = 0; i < 300 * scale; i++) {
            Deflater deflater = new Deflater();
            deflater.setInput(new byte[1000 + i]);
            deflater.finish();
            sum += deflater.deflate(new byte[2000]);
            deflater.end();
        }
        System.out.println(sum);
        Thread[] threads = new Thread[20];
        for (int i = 0; i < 20; i++) (threads[i] = new Thread(() -> new CRC32().update(new byte[100000]))).start();
        for (Thread thread : threads) thread.join();
    }
}
"""

AWK = """
BEGIN { for (i = 0; i < 200000 * scale; i++) { a[i % 9973] = a[i % 9973] i; s = s "x"; if (length(s) > 500) s = "" }
for (k in a) n += length(a[k]); print n, split(a[5], parts, "9"), length(s) }
"""

CARGO = """[package]
name = "work"
version = "0.1.0"
edition = "2021"

[workspace]
"""


def sqlite(scale):
    return f"""create table t(a integer primary key, b text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < {60000 * scale})
insert into t select i, hex(i * 7919) || substr('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 1, i % 40) from n;
create index u on t(b); delete from t where a % 3 = 0; vacuum;
select count(*), sum(length(b)), min(b), max(b) from t;
select substr(b, 1, 2), count(*), max(a) from t group by substr(b, 1, 2) order by 2, 1 limit 20;
select count(*) from t as x join t as y on x.b = y.b where x.a % 7 = 1;
update t set b = b || b where a % 2; select sum(length(b)) from t;
"""


def git(scale):
    return f"""set -e; mkdir repository; cd repository; git init -q -b main
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
for i in $(seq {15 * scale}); do seq $i {3000 * scale} > f$i; git add .
git -c user.name=n -c user.email=e commit -q -m c$i; done
git gc -q; git fsck --strict --no-progress 2>&1; git log --format=%H%s --stat | cksum; git diff HEAD~9 HEAD | cksum
git log -p | cksum; git blame f3 | cksum; git clone -q --no-local . ../clone && git -C ../clone rev-parse HEAD
"""


def c(functions):
    return "\n".join(f"""struct s{n} {{ int a[{n + 1}]; struct s{n} *next; }};
static int helper{n}(struct s{n} *p, int k) {{ return p->next ? helper{n}(p->next, k + 1) : k * {n}; }}
int f{n}(struct s{n} *p, int n) {{
    int t = 0;
    for (int k = 0; k < n; k++) {{ t += p->a[k % {n + 1}] * k; switch (t % 5) {{ case 1: t ^= k; break; case 3: t += helper{n}(p, t); }} }}
    return t;
}}""" for n in range(functions))


def cxx(types):
    head = "#include <algorithm>\n#include <map>\n#include <memory>\n#include <regex>\n#include <string>\n#include <vector>\n"
    return head + "\n".join(f"""template <int N> struct Of{n} {{ std::map<std::string, std::vector<std::shared_ptr<Of{n}<N - 1>>>> m; int v[N]; }};
template <> struct Of{n}<1> {{ int v; }};
int f{n}(std::string s) {{
    Of{n}<9> x; x.m[s].emplace_back(std::make_shared<Of{n}<8>>()); std::regex r(s);
    std::vector<std::pair<std::string, int>> all{{{{s, {n}}}}}; std::sort(all.begin(), all.end());
    return std::regex_match(s, r) + x.m.size() + all[0].second;
}}""" for n in range(types))


def rust(types):
    parts = "\n".join(f"""#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct T{n} {{ a: Vec<u32>, b: String, c: Option<Box<T{n}>>, d: std::collections::BTreeMap<String, u8> }}
fn f{n}(x: &T{n}) -> usize {{ let mut all = vec![x.clone(); 3]; all.sort(); all.dedup(); format!("{{all:?}}").len() + x.b.len() + {n} }}
""" for n in range(types))
    return parts + "fn main() { let mut n = 0; " + " ".join(f"n += f{n}(&T{n}::default());" for n in range(types)) + ' println!("{n}"); }\n'
