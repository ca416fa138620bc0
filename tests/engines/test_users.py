"""The user of an engine stays known, whatever is installed on the machine meanwhile."""

import subprocess

from tests.engines import users

FILES = ("passwd", "group", "subuid", "subgid")

# The machine's /etc gives way to a copy here, in which files can be replaced.
MACHINE = f"""
cd $1
mkdir machine
for name in {" ".join(FILES)}; do cp /etc/$name machine/ 2>/dev/null || : >machine/$name; done
mount --bind machine /etc
unshare --mount sh -euc "$2
touch introduced; until [ -e replaced ]; do sleep 0.01; done; cat /etc/*" &
until [ -e introduced ]; do sleep 0.01; done
for name in {" ".join(FILES)}; do
    echo new >machine/$name.new
    mv machine/$name.new machine/$name
done
touch replaced
wait $!
"""


def test_files_that_are_replaced_on_the_machine_do_not_uncover_it(privileged, tmp_path):
    script = users.introduce(tmp_path, tmp_path / "home")
    command = ["unshare", "--mount", "sh", "-euc", MACHINE, "sh", tmp_path, script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.stderr == ""
    assert done.stdout.count(f"{users.NAME}:") == len(FILES)
    assert "new" not in done.stdout.splitlines()
