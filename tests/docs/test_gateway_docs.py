"""docs/gateway.md describes every setting that exists, and nothing else."""

from belljar.gateway.settings import VARIABLES
from tests.docs.test_docs import first_column, section


def test_every_setting_is_documented_and_nothing_else():
    assert first_column(section("gateway.md", "Reaching the network")) == list(VARIABLES)
