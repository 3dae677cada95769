"""What is remembered of tools that were found: shown again without reading, and no longer than it is of use."""

import gc
import weakref

import pytest
from builders import ISSUES, World, permitted

from toolcrib.catalog.denied_names import Mentions
from toolcrib.catalog.tool_search import Briefs
from toolcrib.catalog.wording import Wordings


@pytest.fixture
def wordings(world: World) -> Wordings:
    world.listed(ISSUES)
    return Wordings(world.index, Mentions((), ()))


def test_a_tool_is_read_once(world: World, wordings: Wordings, monkeypatch: pytest.MonkeyPatch):
    catalog = world.catalog()
    wording, briefs = wordings.of(catalog, permitted(catalog)), Briefs()
    rows = [tool.row for tool in catalog.tools]
    shown = briefs.of(wording, rows)
    monkeypatch.setattr(wording, "cards", None)
    assert briefs.of(wording, rows) == shown
    assert shown.keys() == set(rows)


def test_it_keeps_no_catalog_that_has_been_replaced(world: World, wordings: Wordings):
    catalog, briefs = world.catalog(), Briefs()
    briefs.of(wordings.of(catalog, permitted(catalog)), [tool.row for tool in catalog.tools])
    replaced = weakref.ref(catalog)
    catalog = world.catalog()
    briefs.of(wordings.of(catalog, permitted(catalog)), [tool.row for tool in catalog.tools])
    gc.collect()
    assert replaced() is None
