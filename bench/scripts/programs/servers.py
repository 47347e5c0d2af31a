"""Servers: started, asked, ended. What is measured is the server; its answers are compared."""

import hashlib
import http.client
import os
import pwd
import shutil
import signal
import socket

from measure import until


def answers(path, request, ends):
    """Sends `request` to a socket, and reads until the answer ends so."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(path)
        connection.sendall(request)
        answer = bytearray()
        while not answer.endswith(ends):
            part = connection.recv(1 << 20)
            if not part:
                break
            answer += part
        return bytes(answer)


def redis(run):
    path = os.path.join(run.folder, "socket")
    server = run.start(["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--loglevel", "warning",
                        "--enable-debug-command", "yes", "--daemonize", "no"])
    until(lambda: answers(path, b"PING\r\n", b"\r\n"))
    ask = ["redis-cli", "-s", path]
    load = ["-q", "-P", "16", "-r", "20000", "-n", str(30_000 * run.scale), "-d", "200"]
    run.help(["redis-benchmark", "-s", path, *load, "-t", "set,get,incr,lpush,lpop,sadd,hset,spop,zadd,mset"])
    said = run.help([*ask, "flushall"])
    for command in ("debug populate 100000 key 120", "debug digest", "debug reload", "debug digest", "dbsize",
                    "config set maxmemory-policy allkeys-lru", "config set maxmemory 5mb", "ping"):
        said += run.help([*ask, *command.split()])
    outcome = server.end()
    outcome.output = said
    return outcome


def memcached(run):
    path = os.path.join(run.folder, "socket")
    server = run.start(["memcached", "-s", path, "-t", "2", "-m", "64", "-u", "root" if os.getuid() == 0 else "nobody"])
    until(lambda: answers(path, b"version\r\n", b"\r\n"))
    digest = hashlib.sha256()
    for turn in range(20 * run.scale):
        keys = range(turn * 500, turn * 500 + 2000)
        stores = b"".join(b"set k%d 0 0 %d noreply\r\n%s\r\n" % (key, key % 900, b"x" * (key % 900)) for key in keys)
        digest.update(answers(path, stores + b"mn\r\n", b"MN\r\n"))
        digest.update(answers(path, b"get %s\r\n" % b" ".join(b"k%d" % key for key in keys[::20]), b"END\r\n"))
    outcome = server.end()
    outcome.output = digest.hexdigest().encode()
    return outcome


NGINX = """daemon off; master_process off; pid {folder}/pid; error_log {folder}/log error;
events {{ worker_connections 64; }}
http {{ access_log off; gzip on; gzip_min_length 1; gzip_types *; gzip_comp_level 1;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c; uwsgi_temp_path {folder}/d;
  scgi_temp_path {folder}/e;
  server {{ listen unix:{folder}/socket; root {folder}; location /status {{ return 200 $arg_x; }} }} }}
"""


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a socket of the file system."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def nginx(run):
    configuration = run.write("nginx.conf", NGINX.format(folder=run.folder))
    run.write("page.html", "".join(f"<p>{n}</p>\n" for n in range(3000)))
    server = run.start(["nginx", "-c", configuration])
    path = os.path.join(run.folder, "socket")
    until(lambda: UnixConnection(path).connect())
    digest = hashlib.sha256()
    for turn in range(10 * run.scale):
        connection = UnixConnection(path)
        for at in range(100):
            connection.request("GET", f"/status?x={turn * at}" if at % 2 else "/page.html",
                               headers={"Accept-Encoding": "gzip" if at % 4 else "identity", "X-Long": "y" * (at * 10)})
            digest.update(connection.getresponse().read())
        connection.close()
    outcome = server.end(signal.SIGQUIT)
    outcome.output = digest.hexdigest().encode()
    return outcome


def postgres_folder():
    """Where PostgreSQL's own programs lie; none if it is not installed."""
    root = "/usr/lib/postgresql"
    versions = sorted(os.listdir(root)) if os.path.isdir(root) else []
    if versions:
        return os.path.join(root, versions[-1], "bin")
    found = shutil.which("initdb")
    return os.path.dirname(os.path.realpath(found)) if found else None


def has_postgres():
    folder = postgres_folder()
    return bool(folder) and os.path.exists(os.path.join(folder, "pgbench"))


def as_somebody(run):
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return []
    owner = next((name for name in ("postgres", "nobody") if name in (user.pw_name for user in pwd.getpwall())))
    shutil.chown(run.folder, owner)
    return ["setpriv", f"--reuid={owner}", "--clear-groups"]


def postgres(run):
    tools, prefix = postgres_folder(), as_somebody(run)
    tool = lambda name, *arguments: [*prefix, os.path.join(tools, name), *arguments]
    data = os.path.join(run.folder, "data")
    initialised = run.help(tool("initdb", "-D", data, "--no-sync", "-A", "trust", "-U", "owner", "--locale=C"))
    server = run.start(tool("postgres", "-D", data, "-k", run.folder, "-c", "listen_addresses=", "-c", "fsync=off",
                            "-c", "autovacuum=off", "-c", "log_min_messages=fatal"))
    target = ["-h", run.folder, "-U", "owner"]
    until(lambda: answers(os.path.join(run.folder, ".s.PGSQL.5432"), b"\0\0\0\x08\x04\xd2\x16\x2f", b"N"))
    said = run.help(tool("pgbench", *target, "-i", "-q", "-s", "2", "postgres")).splitlines()[-1]
    for extra in (["-t", str(300 * run.scale)], ["-S", "-t", str(1500 * run.scale)], ["-C", "-S", "-t", str(20 * run.scale)]):
        ran = run.help(tool("pgbench", *target, "-n", "-c", "2", "-j", "2", "--random-seed=1", *extra, "postgres"))
        said += b"\n".join(line for line in ran.splitlines() if line.startswith((b"number of", b"status")))
    run.write("q.sql", QUERIES)
    said += run.help(tool("psql", *target, "-qAt", "-f", "q.sql", "postgres"))
    outcome = server.end(signal.SIGINT)
    outcome.output = initialised[-20:] + said
    return outcome


QUERIES = """select sum(abalance), count(*) from pgbench_accounts;
select sum(length(repeat(md5(n::text), n % 30))) from generate_series(1, 60000) n;
select count(*), max(s) from (select string_agg(n::text, ',' order by n) s from generate_series(1, 80000) n group by n % 997) x;
select jsonb_object_agg(n::text, n)->'77' from generate_series(1, 20000) n;
"""

ALL = [
    ("redis", ["redis-server", "redis-benchmark", "redis-cli"], redis),
    ("memcached", ["memcached"], memcached),
    ("nginx", ["nginx"], nginx),
    ("postgres", ["setpriv"], postgres),
]
