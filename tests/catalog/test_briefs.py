"""What is remembered of tools that were found: shown again without reading, and no longer than it is of use."""

import gc
import weakref

import pytest
from builders import ISSUES, World, permitted

from toolcrib.catalog.gate import NameMaskers
from toolcrib.catalog.tool_search import Briefs
from toolcrib.catalog.views import CatalogViews


@pytest.fixture
def views(world: World) -> CatalogViews:
    world.listed(ISSUES)
    return CatalogViews(world.index, NameMaskers((), ()))


def test_a_tool_is_read_once(world: World, views: CatalogViews, monkeypatch: pytest.MonkeyPatch):
    catalog = world.catalog()
    view, briefs = views.view(catalog, permitted(catalog)), Briefs()
    rows = [tool.row for tool in catalog.tools]
    shown = briefs.read(view, rows)
    monkeypatch.setattr(view, "cards", None)
    assert briefs.read(view, rows) == shown
    assert shown.keys() == set(rows)


def test_it_keeps_no_catalog_that_has_been_replaced(world: World, views: CatalogViews):
    catalog, briefs = world.catalog(), Briefs()
    briefs.read(views.view(catalog, permitted(catalog)), [tool.row for tool in catalog.tools])
    replaced = weakref.ref(catalog)
    catalog = world.catalog()
    briefs.read(views.view(catalog, permitted(catalog)), [tool.row for tool in catalog.tools])
    gc.collect()
    assert replaced() is None
