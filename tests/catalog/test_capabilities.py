"""Tools found by the ways in which people ask for what they do, which no answer shows."""

import pytest
from builders import World, listing, names, opened, permitted, record
from denials import policy_of, store

from toolcrib.catalog.gate import NameMaskers
from toolcrib.catalog.tool_search import Searcher, SearchRequest
from toolcrib.catalog.views import CatalogViews
from toolcrib.policy.rules import Policy
from toolcrib.search.capabilities import Capabilities, shipped
from toolcrib.search.engine import SearchSettings

SHOP = listing(
    "shop",
    record("shop", "create_refund", "Create a refund for a charge."),
    record("shop", "list_orders", "List the orders of the shop."),
    record("shop", "update_price", "Update the price of a product."),
)
PLAIN = "cough it up again please"
KNOWN = Capabilities([("own.txt", "[own]\nrefund a payment: CREATE refund\n  cough it up again please\n")])
RENAMED = Capabilities([("own.txt", "[own]\nset a price: update price\n  cough it up again please\n")])


@pytest.fixture(params=["in memory", "on disk"])
def world(request: pytest.FixtureRequest, path):
    with opened(path, capabilities=KNOWN, ranked_in_memory=0 if request.param == "on disk" else 100) as each:
        yield each


def test_a_tool_is_found_by_a_way_of_asking_that_no_text_of_it_has(world: World):
    world.listed(SHOP)
    assert world.names(PLAIN) == ["shop__create_refund"]


@pytest.mark.parametrize("most", [100, 0], ids=["in memory", "on disk"])
def test_of_two_tools_with_the_words_the_one_that_shows_what_is_asked_for_is_first(path, most: int):
    text = "[own]\nrefund a payment: CREATE refund\n  make the buyer whole\n"
    lists = listing(
        "shop",
        record("shop", "create_refund", "Create a refund for a charge."),
        record("shop", "list_buyers", "List each buyer, and make the list whole."),
    )
    with opened(path, capabilities=Capabilities([("own.txt", text)]), ranked_in_memory=most) as world:
        world.listed(lists)
        assert world.names("make the buyer whole")[0] == "shop__create_refund"
    with opened(path, ranked_in_memory=most) as world:
        assert world.names("make the buyer whole")[0] == "shop__list_buyers"


def test_a_mark_of_a_capability_finds_nothing_when_it_is_asked_for(world: World):
    world.listed(SHOP)
    mark = KNOWN.ways("create refund", "", "", ()).split()[-1]
    assert world.names(mark) == []


def test_showing_what_is_asked_for_makes_no_answer_sure(world: World):
    """It changes the order; how sure an answer is stays a matter of words."""
    world.listed(SHOP)
    assert world.search("cough it").confidence != "high"


def test_without_the_dictionary_nothing_is_found(path):
    with opened(path) as world:
        world.listed(SHOP)
        assert world.names(PLAIN) == []


def test_no_text_that_is_stored_or_shown_has_a_way_of_asking(world: World):
    world.listed(SHOP)
    world.names(PLAIN)
    rows = [tool.row for tool in world.catalog().tools]
    stored = [world.index.shown(rows), world.index.words(rows), world.index.texts(rows)]
    assert "cough" not in str(stored)
    assert world.names("cough", "regex") == []


def test_the_full_text_table_for_others_has_no_way_of_asking(world: World):
    world.listed(SHOP)
    world.names(PLAIN)
    with world.store.read() as connection:
        found = connection.execute("SELECT count(*) FROM tools_fts WHERE tools_fts MATCH 'cough'").fetchone()[0]
    assert found == 0


def test_another_dictionary_takes_effect_on_the_same_file_and_the_same_postings(path):
    with opened(path, capabilities=KNOWN) as world:
        world.listed(SHOP)
        assert world.names(PLAIN) == ["shop__create_refund"]
        known = world.searcher.known()
    for most in 100, 0:
        with opened(path, capabilities=RENAMED, ranked_in_memory=most) as world:
            world.searcher.begin_with(known)
            assert world.names(PLAIN) == ["shop__update_price"]


def test_a_sign_that_only_the_name_of_a_denied_tool_gives_shows_nothing(path):
    """What a caller may not see moves nothing, so signs are looked for in the words that this caller may read."""
    text = f"[own]\nrefund a payment: settle (refund)\n  {PLAIN}\n"
    lists = {
        "shop": [
            {"name": "settle", "description": "Settles. Another way is create_refund.", "inputSchema": {}},
            {"name": "create_refund", "description": "Makes one.", "inputSchema": {}},
        ]
    }
    denied = frozenset({("shop", "create_refund")})
    with opened(path, capabilities=Capabilities([("own.txt", text)])) as world:
        store(world.index, lists, Policy())
        catalog = world.catalog()
        searcher = Searcher(CatalogViews(world.index, NameMaskers(tuple(lists), ())), SearchSettings())
        found = {
            policy: searcher.search(SearchRequest(PLAIN), catalog, permitted(catalog, each))
            for policy, each in {"all": Policy(), "some": policy_of(denied, lists, "hidden")}.items()
        }
        assert names(found["all"]) == ["shop__settle"]
        assert names(found["some"]) == []


def test_the_shipped_dictionary_lifts_a_tool_over_one_that_shares_a_word(path):
    with opened(path, capabilities=shipped()) as world:
        world.listed(
            listing(
                "shop",
                record("shop", "create_refund", "Create a refund for a charge."),
                record("shop", "get_customer", "Get a customer of the shop."),
            )
        )
        assert world.names("give the customer the money back")[0] == "shop__create_refund"
