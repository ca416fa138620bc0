"""The user of an engine exists, whatever users the machine has and whatever is installed on it meanwhile."""

import subprocess

from tests.engines import users

FILES = ("passwd", "group", "subuid", "subgid")

# A machine that has a user of the same number, and whose files in /etc are replaced.
MACHINE = f"""
cd $1
mkdir machine
echo "other:x:{users.NUMBER}:{users.NUMBER}::/:/bin/sh" | tee machine/passwd machine/group >machine/subuid
mount --bind machine /etc
unshare --mount sh -euc "$2
touch introduced; until [ -e replaced ]; do sleep 0.01; done; cat /etc/*; getent passwd {users.NUMBER}" &
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
    *lines, found = done.stdout.splitlines()
    assert len([line for line in lines if line.startswith(f"{users.NAME}:")]) == len(FILES)
    assert "new" not in lines
    assert found.startswith(f"{users.NAME}:")
