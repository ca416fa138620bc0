"""A class has a name of its own, so that whoever reads or looks for it finds one.

The client's are apart: they are what the server's are to whoever uses it, and it imports none of them.
"""

import ast
from collections import defaultdict

from scripts.modules import SOURCE


def test_no_class_name_is_there_twice():
    homes = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        if "client" not in path.relative_to(SOURCE).parts[:1]:
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}
