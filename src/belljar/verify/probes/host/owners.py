"""What is on the machine for whoever made the sandbox: the log of the run, what is beside it, servers' state."""

from pathlib import Path

from belljar.verify.probes.kit import Finding, Mark, inside


@inside(69, "owners-files", "the log of the run, the working directory next door, and the state of servers")
def owners_files(mark: Mark) -> Finding:
    if not mark.scene.owners:
        raise RuntimeError("nobody has told what there is")
    there = [path for path in mark.scene.owners if _is_there(Path(path))]
    return Finding(
        not there, f"there is: {', '.join(there)}" if there else f"none of {len(mark.scene.owners)} is there"
    )


def _is_there(path: Path) -> bool:
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError:  # it is there, but for others
        return True
    return True
