"""What the tests of the index share."""

from pathlib import Path

import pytest
from builders import GUEST, World, guests_without, opened

from toolcrib.index.ranking import SearchRequest
from toolcrib.model import SearchType
from toolcrib.policy import Policy


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "tool_cache.db"


@pytest.fixture
def world(path: Path):
    with opened(path) as each:
        yield each


@pytest.fixture(params=["whole", "own rows"])
def ask(request: pytest.FixtureRequest):
    """Search as a caller ranked by the full-text table, and as one ranked in memory over their own rows."""
    policy = Policy() if request.param == "whole" else guests_without("none.*")

    def search(world: World, query: str, kind: str = "fts", **options: object):
        catalog = world.catalog()
        permitted = catalog.permitted(policy.view(GUEST))
        return world.searcher.search(SearchRequest(query, SearchType(kind), **options), catalog, permitted)

    return search
