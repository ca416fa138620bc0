"""Servers of the real world, on a machine of the universe. Each makes its own files, and ends when it is left."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from belljar.linux.programs import run
from tests.gateway.serving import eventually
from tests.universe.certificates import Certificates
from tests.universe.machines import PATH, USER, Machine

_APACHE = """
ServerRoot "{home}"
ServerName web.machine.test
PidFile "{home}/apache.pid"
ErrorLog "{home}/apache.log"
DocumentRoot "{pages}"
{modules}
Listen {http}
Listen {https}
Protocols h2 h2c http/1.1
ScriptSock "{home}/cgid"
ScriptAlias /git/ "{git}/"
SetEnv GIT_PROJECT_ROOT "{home}"
SetEnv GIT_HTTP_EXPORT_ALL 1
TypesConfig /dev/null
AddType text/html .html
DirectoryIndex index.html
<VirtualHost *:{https}>
    SSLEngine on
    SSLCertificateFile "{certificate}"
</VirtualHost>
"""

_LIBRARY = "/usr/lib/apache2/modules"
_MODULES = ["mpm_event", "authz_core", "ssl", "http2", "alias", "cgid", "env", "mime", "dir"]


def program(name: str, package: str, path: str = PATH) -> str:
    """Return where a program is; skip the test if it is not installed."""
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(f"needs {name}: apt-get install {package}")
    return found


@contextmanager
def apache(machine: Machine, certificates: Certificates) -> Iterator[Path]:
    """Serve the directory that this returns over HTTP, HTTPS and HTTP/2, and git repositories at home under `/git/`."""
    server = program("apache2", "apache2-bin")
    pages, certificate, configuration = (machine.home / name for name in ("pages", "web.pem", "apache.conf"))
    pages.mkdir()
    certificates.write(certificate, "web.machine.test", "other.machine.test")
    https = machine.lead(443)
    values = {
        "home": machine.home,
        "pages": pages,
        "modules": "\n".join(f"LoadModule {name}_module {_LIBRARY}/mod_{name}.so" for name in _MODULES),
        "http": machine.lead(80),
        "https": https,
        "git": Path(run("git", "--exec-path").strip()) / "git-http-backend",
        "certificate": certificate,
    }
    configuration.write_text(_APACHE.format(**values))
    with machine.serving(https, server, "-DFOREGROUND", "-f", str(configuration)):
        yield pages


@contextmanager
def dropbear(machine: Machine) -> Iterator[Path]:
    """Serve SSH; the key that this returns opens it, and `known_hosts` beside the key vouches for it."""
    server, port = program("dropbear", "dropbear-bin"), machine.lead(22)
    key, host_key = machine.home / "id_ed25519", machine.home / "host_key"
    run("ssh-keygen", "-t", "ed25519", "-N", "", "-f", str(key))
    allowed = machine.home / ".ssh" / "authorized_keys"
    allowed.parent.mkdir(mode=0o700)
    allowed.write_text(key.with_suffix(".pub").read_text())
    shown = run("dropbearkey", "-t", "ed25519", "-f", str(host_key))
    [public] = [line for line in shown.splitlines() if line.startswith("ssh-ed25519 ")]
    (machine.home / "known_hosts").write_text(f"*.machine.test {public}\n")
    with machine.serving(port, server, "-F", "-E", "-s", "-r", str(host_key), "-p", str(port)):
        yield key


@contextmanager
def postgres(machine: Machine, certificates: Certificates) -> Iterator[None]:
    """Serve an empty database to everybody."""
    versions = ":".join(sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True))
    initdb, server = (program(name, "postgresql", f"{versions}:{PATH}") for name in ("initdb", "postgres"))
    data, certificate, port = machine.home / "data", machine.home / "database.pem", machine.lead(5432)
    certificates.write(certificate, "db.machine.test")
    machine.run(initdb, f"--pgdata={data}", f"--username={USER}", "--no-sync", "--no-locale", "--encoding=UTF8")
    (data / "pg_hba.conf").write_text("host all all all trust\n")
    settings = {
        "listen_addresses": "*",
        "port": str(port),
        "unix_socket_directories": "",
        "fsync": "off",
        "ssl": "on",
        "ssl_cert_file": str(certificate),
        "ssl_key_file": str(certificate),
    }
    options = [f"--{name}={value}" for name, value in settings.items()]
    with machine.serving(port, server, "-D", str(data), *options) as log:
        eventually(lambda: "ready to accept connections" in log.read_text())
        yield


@contextmanager
def redis(machine: Machine) -> Iterator[None]:
    """Serve an empty store to everybody."""
    # The server and this tool are one program, which goes by its name. Its other package would start it at every boot.
    server, port = machine.home / "redis-server", machine.lead(6379)
    server.symlink_to(program("redis-check-rdb", "redis-tools"))
    options = ["--port", str(port), "--protected-mode", "no", "--save", "", "--dir", str(machine.home)]
    with machine.serving(port, str(server), *options):
        yield
