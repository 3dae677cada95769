"""A tool's own name, however it is written, finds that tool first: over the lists of real servers."""

from collections import defaultdict

import pytest
from builders import REAL_CATALOG, opened, permitted, real_listing

from toolcrib.base.text import words
from toolcrib.catalog.tool_search import SearchRequest


def spellings(server: str, name: str) -> set[str]:
    """Return a name in every way that people write it, with and without its server."""
    parts = words(name)
    first, *rest = parts
    styles = {
        name,
        "_".join(parts),
        "-".join(parts),
        ".".join(parts),
        " ".join(parts),
        "".join(parts),
        first + "".join(part.title() for part in rest),
        "".join(part.title() for part in parts),
        "_".join(parts).upper(),
    }
    return styles | {f"{server}{mark}{style}" for style in styles for mark in ("__", ".", "/", ":", " ", "")}


@pytest.mark.slow
@pytest.mark.parametrize("of", [1, 10])
def test_a_name_in_any_spelling_is_the_first_hit_with_the_score_1(tmp_path, of):
    files = sorted(REAL_CATALOG.glob("*.json"))
    if not files:
        pytest.skip("the lists of real servers are not here")
    with opened(tmp_path / "tool_cache.db") as world:
        catalog = world.listed(*map(real_listing, files))
        everything = permitted(catalog)
        meant = defaultdict(set)
        for tool in catalog.tools:
            for spelling in spellings(tool.server, tool.name):
                meant[spelling].add(tool.public_name)
        for spelling in sorted(meant)[:: 37 * of]:
            first = world.searcher.search(SearchRequest(spelling, limit=1), catalog, everything).matches[0]
            assert (first.score, first.match_type) == (1.0, "exact"), spelling
            assert first.document.public_name in meant[spelling], spelling
        for spelling, names in list(meant.items())[::of]:
            found = {tool.public_name for tool in catalog.exact(spelling)}
            assert found >= names, spelling
