"""What the tests of tools share."""

from pathlib import Path
from typing import Any

import pytest
from builders import GUEST, World, guests_without, opened

from toolcrib.base.model import SearchType
from toolcrib.catalog.tool_search import SearchRequest
from toolcrib.policy.rules import Policy


@pytest.fixture
def world(path: Path):
    with opened(path) as each:
        yield each


@pytest.fixture(params=["whole", "own rows"])
def ask(request: pytest.FixtureRequest):
    """Search as a caller ranked by the full-text table, and as one ranked in memory over their own rows."""
    policy = Policy() if request.param == "whole" else guests_without("none.*")

    def search(world: World, query: str, kind: str = "fts", **options: Any):
        catalog = world.catalog()
        permitted = catalog.permitted(policy.permissions(GUEST))
        return world.searcher.search(SearchRequest(query, SearchType(kind), **options), catalog, permitted)

    return search
