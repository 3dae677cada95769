"""Real authorization servers, each started once for the tests of a module."""

import os
from collections.abc import Generator

import pytest

from oauth.rig import HOW_TO_INSTALL_FASTMCP, Rig, fastmcp, find_fastmcp, oidc_provider


@pytest.fixture(scope="module", params=["oidc-provider", "fastmcp"])
def rig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Rig]:
    """Return a server that wants a login, of one make after the other."""
    folder = tmp_path_factory.mktemp("rig")
    if request.param == "fastmcp":
        python = find_fastmcp(os.environ)
        if python is None:
            pytest.skip(HOW_TO_INSTALL_FASTMCP)
        with fastmcp(python, folder) as one:
            yield one
        return
    with oidc_provider(request.getfixturevalue("npm"), folder) as [one]:
        yield one
