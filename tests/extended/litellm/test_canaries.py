"""The run in which everything leaks, once more with litellm, which logs and raises texts of its own."""

from __future__ import annotations

import pytest

from tests.session.test_canaries import leaked as leaked
from tests.session.test_canaries import test_a_key_that_was_gone_again_does_not_come_out as test_gone_again
from tests.session.test_canaries import test_no_canary_comes_out as test_no_canary_comes_out
from tests.session.test_canaries import test_the_canaries_were_really_let_out as test_they_were_let_out

__all__ = ["leaked", "test_gone_again", "test_no_canary_comes_out", "test_they_were_let_out"]


@pytest.fixture(scope="module")
def via() -> str:
    """How the model is sent requests."""
    return "litellm"
