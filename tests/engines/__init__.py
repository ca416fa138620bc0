"""Real container engines for tests: Docker, Podman as root, and Podman as an ordinary user.

Each runs in a network namespace with no way out, with mounts, files and control groups of its own, and can be stopped,
killed and started again. The machine's own engines, if it has any, are left alone. Images are made from what is on the
machine.
"""

from tests.engines.docker import start_docker
from tests.engines.engine import Engine
from tests.engines.images import BUSYBOX, Directory, File, Link, busybox, make_image
from tests.engines.podman import start_podman, start_rootless_podman

__all__ = [
    "BUSYBOX",
    "Directory",
    "Engine",
    "File",
    "Link",
    "busybox",
    "make_image",
    "start_docker",
    "start_podman",
    "start_rootless_podman",
]
