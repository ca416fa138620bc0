"""The client that waits is the one for asyncio, without its awaits."""

import pytest

from scripts import unasync


@pytest.mark.parametrize("module", unasync.MODULES)
def test_what_is_generated_is_up_to_date(module):
    assert (unasync.TARGET / f"{module}.py").read_text() == unasync.generated(module), "run scripts/unasync.py"
