"""The demonstration: an agent in a sandbox, an internet that is made for it, and what that internet saw.

Nothing leaves this machine. The internet is a network namespace in which every name and every address answers.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from socket import socketpair

from belljar.verify.internet.witness import SightingKind, Witness
from belljar.verify.internet.world import World
from belljar.verify.probes import places

EXAMPLES = Path(__file__).parent
COMMAND = [
    "belljar", "run", "--summary",
    "--allow", "api.model.example",
    "--allow", "packages.example",
    "--", "./agent.sh",
]  # fmt: skip


def main() -> int:
    """Show it; return 0 if the agent did its work and got nowhere else."""
    with tempfile.TemporaryDirectory(prefix="belljar-demo-", dir="/var/tmp") as directory:
        project = Path(directory)
        shutil.copy(EXAMPLES / "agent.sh", project)
        (project / ".git/hooks").mkdir(parents=True)
        print(f"$ {' '.join(COMMAND)}\n", flush=True)
        with World() as world, closing(Witness(world, "demo")) as witness:
            code = run_agent(world, witness, project)
            return report(witness) or code


def run_agent(world: World, witness: Witness, project: Path) -> int:
    """Run the agent on the host of this world, while the witness answers whoever turns up."""
    running, ended = socketpair()  # `ended` is the agent's, so that it closes when the agent is gone
    environment = os.environ | {"BELLJAR_RESOLVER": places.RESOLVER[4], "TERM": os.environ.get("TERM", "dumb")}
    command = [sys.executable, "-m", *COMMAND]

    def start() -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            command, cwd=project, env=environment, stderr=subprocess.STDOUT, pass_fds=[ended.fileno()]
        )

    agent = world.host.run(start)
    ended.close()
    with running:
        witness.attend(running)
    return agent.wait()


def report(witness: Witness) -> int:
    """Say what the internet saw; return 0 if that is what was allowed, and nothing else."""
    seen = witness.testimony()
    hosts = {line[6:] for one in seen for line in one.data.decode("latin-1").split("\r\n") if line.startswith("Host: ")}
    asked = {one.data.decode() for one in seen if one.kind is SightingKind.QUESTION}
    print("\nWhat the internet saw:")
    print(f"  requests for     {', '.join(sorted(hosts))}")
    print(f"  questions about  {', '.join(sorted(asked))}")
    return 0 if hosts == asked == {"api.model.example", "packages.example"} else 1


if __name__ == "__main__":
    sys.exit(main())
