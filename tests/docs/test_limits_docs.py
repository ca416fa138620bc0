"""docs/gateway.md describes every limit with its default, and nothing else."""

import re
from dataclasses import asdict

from belljar.gateway.limits import Limits
from tests.docs.test_docs import section


def test_every_limit_is_documented_with_its_default_and_nothing_else():
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \|", section("gateway.md", "Limits"), re.MULTILINE)
    assert dict(rows) == {name: str(value) for name, value in asdict(Limits()).items()}
