"""Runs the self-test on a container of Docker's of which a layer is off, and prints its report.

Arguments: the layer, and probes. What is replaced is replaced in the processes that make the sandbox.
"""

import sys
from typing import Any

from belljar.backends.containers import config, limits, sealing
from belljar.linux import loopback
from belljar.sandbox import arming
from belljar.sandbox.files import ownplaces, protected
from belljar.verify.verifying import verify
from tests.verify.sabotaged import replace


def rights_kept():
    _order(CapAdd=["NET_ADMIN"], SecurityOpt=["no-new-privileges", "seccomp=unconfined"])


def on_a_bridge():
    _order(NetworkMode="bridge")


def not_armed():
    """Bind the gateway's listeners, with no packet filter that leads to them."""

    def without_filter():
        loopback.bring_up()
        return arming._bind()

    replace(sealing, "arm_here", without_filter)


def limits_off():
    replace(limits, "of_sandbox", lambda wanted: {})


def memory_without_size():
    _order(Tmpfs={"/tmp": "rw,nosuid,nodev,exec,mode=1777"})


def project_unprotected():
    replace(protected, "PLACES", ())
    replace(ownplaces, "kept_in", lambda *_: [])


def _order(**changes: Any) -> None:
    def changed(*positional: Any) -> dict[str, Any]:
        return {**configuration(*positional), **changes}

    configuration = replace(config.ContainerConfig, "_host_configuration", changed)


if __name__ == "__main__":
    layer, *only = sys.argv[1:]
    sys.stdout.write(verify("docker", only=only, prepare=globals()[layer]).as_json())
