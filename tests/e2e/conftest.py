"""What tests against real programs share."""

import os

import pytest

from e2e.npm import HOW_TO_INSTALL, Npm, find


@pytest.fixture(scope="session")
def npm() -> Npm:
    """Return the programs from npm; a test that asks for them is slow, and is skipped where they are missing."""
    found = find(os.environ)
    if found is None:
        pytest.skip(HOW_TO_INSTALL)
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "npm" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
