"""How long a test may take that takes long on purpose, and where it stood if it took longer.

``timeout`` in pyproject.toml is for quick tests. Out of time, pytest-timeout ends the process, and what it prints in a
worker reaches nobody: the test would look as if its worker had crashed.
"""

import faulthandler
import os
from collections.abc import Generator, Sequence

import pytest
from hypothesis import is_hypothesis_test
from pytest_timeout import Settings

from patience import patience_s

SLOW_S = patience_s(600)
"""Seconds for one test that is marked slow or hostile, or draws many inputs; more at full counts."""

STANDS_S = 2
"""Seconds before its end at which it is printed where a test stands."""

_stderr = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep the file descriptor that a worker shares with whoever started it: what is captured is lost with it."""
    if hasattr(config, "workerinput"):
        config.stash[_stderr] = os.dup(2)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close it."""
    if _stderr in config.stash:
        os.close(config.stash[_stderr])


def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Give tests that take long on purpose their time, unless they say how long they may take.

    Runs after all that mark tests as slow, which come first.
    """
    draws_many = config.getoption("hypothesis_profile", None) in {"ci", "explore"}
    for item in items:
        takes_long = item.get_closest_marker("slow") or item.get_closest_marker("hostile")
        # Not by its marker, which Hypothesis gives later.
        is_property = isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)
        if (takes_long or (draws_many and is_property)) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_S))


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Settings) -> Generator[None, object, object]:
    """Print where each thread stands shortly before the test runs out of time."""
    if _stderr in item.config.stash:
        seconds = max(settings.timeout - STANDS_S, settings.timeout / 2)
        faulthandler.dump_traceback_later(seconds, file=item.config.stash[_stderr])
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> Generator[None, object, object]:
    """Print nothing of a test that has ended."""
    faulthandler.cancel_dump_traceback_later()
    return (yield)
