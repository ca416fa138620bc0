import pytest

from belljar.linux.nft import sealed
from belljar.linux.programs import ProgramFailedError, run


def installed() -> str:
    return run("nft", "list", "ruleset")


def test_installing_again_changes_nothing(namespace):
    namespace.run(lambda: sealed.apply(sealed.ruleset()))
    first = namespace.run(installed)
    namespace.run(lambda: sealed.apply(sealed.ruleset()))
    assert namespace.run(installed) == first != ""


def test_a_broken_ruleset_changes_nothing_at_all(namespace):
    """One transaction: its good rules do not count if one is bad."""
    namespace.run(lambda: sealed.apply(sealed.ruleset()))
    before = namespace.run(installed)
    with pytest.raises(ProgramFailedError, match="no_such_chain"):
        namespace.run(lambda: sealed.apply(sealed.ruleset() + "add rule inet belljar no_such_chain accept\n"))
    assert namespace.run(installed) == before
