"""Words that stand nowhere, found again by what they may be a misspelling of."""

from builders import ISSUES, World, listing, names, record
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.search.postings import Lexicon

WORDS = ("repository", "deploy", "deploys", "issue", "paint", "point", "list", "2024")
letters = st.characters(codec="ascii", categories=["Ll"])


def test_one_edit_is_repaired():
    lexicon = Lexicon(WORDS)
    for wrong in ("repsoitory", "repositry", "repositorry", "repasitory"):
        assert lexicon.near(wrong) == ["repository"], wrong


def test_two_edits_are_too_many():
    assert Lexicon(WORDS).near("reposytary") == []


def test_all_words_as_near_are_given_in_order():
    assert Lexicon(WORDS).near("pxint") == ["paint", "point"]
    assert Lexicon(WORDS).near("deployx") == ["deploy", "deploys"]


def test_another_first_letter_is_a_slip_in_a_long_word_only_and_only_where_nothing_else_is_near():
    assert Lexicon(["repository"]).near("tepository") == ["repository"]
    assert Lexicon(["repository"]).near("erpository") == ["repository"]
    assert Lexicon(["table"]).near("fable") == []
    assert Lexicon(["mother", "another", "brother"]).near("bother") == ["brother"]


def test_short_words_and_numbers_are_left_alone():
    assert Lexicon(["pin", "2024"]).near("pan") == []
    assert Lexicon(["2024"]).near("2023") == []


@settings(max_examples=60, deadline=None)
@given(word=st.text(letters, min_size=5, max_size=15), place=st.integers(1, 4), letter=letters)
def test_any_word_with_one_edit_is_found(word: str, place: int, letter: str):
    lexicon = Lexicon([word, "something", "else"])
    edits = {
        word[:place] + word[place + 1 :],
        word[:place] + letter + word[place:],
        word[:place] + letter + word[place + 1 :],
    }
    if place + 1 < len(word):
        edits.add(word[:place] + word[place + 1] + word[place] + word[place + 2 :])
    for edit in edits:
        assert word in lexicon.near(edit), edit


def test_a_misspelt_query_finds_the_same_tool_first(world: World, ask):
    world.listed(ISSUES)
    for query in ("merge a pull requst", "mrege pull request", "serach code in all repositoires", "lits the isues"):
        right = {"m": "github__merge_pull_request", "s": "github__search_code", "l": "github__list_issues"}[query[0]]
        assert names(ask(world, query))[0] == right, query


def test_a_word_that_is_known_is_not_repaired(world: World, ask):
    world.listed(listing("s", record("s", "point", "Points at it."), record("s", "paint", "Paints it.")))
    assert names(ask(world, "paints")) == ["s__paint"]


def test_the_right_spelling_beats_a_misspelling_of_it(world: World, ask):
    tools = [record("s", "stamp", "Works on letters."), record("s", "stump", "Works on letters.")]
    world.listed(listing("s", *tools))
    assert names(ask(world, "stxmp letters stump"))[0] == "s__stump"


def test_two_words_are_found_written_as_one_and_one_as_two(world: World, ask):
    world.listed(listing("s", record("s", "keyvault_get", "Reads it."), record("s", "web_page", "Reads one.")))
    assert names(ask(world, "key vault")) == ["s__keyvault_get"]
    assert names(ask(world, "webpage")) == ["s__web_page"]
    assert names(ask(world, "pageweb")) == ["s__web_page"]
    assert names(ask(world, "vaultkeys")) == []


def test_a_slip_in_one_word_does_not_lessen_another(world: World, ask):
    world.listed(listing("s", record("s", "point", "Points at a wall."), record("s", "paint", "Paints a wall.")))
    assert ask(world, "pxint paint").matches == ask(world, "paint pxint").matches
    assert names(ask(world, "pxint paint"))[0] == "s__paint"


def test_a_word_that_is_taken_for_another_never_makes_an_answer_sure(world: World, ask):
    world.listed(ISSUES)
    assert ask(world, "merge a pull request").confidence == "high"
    for misspelt in ("mrege a pulll request", "merge a pulll requst"):
        found = ask(world, misspelt)
        assert (names(found)[0], found.confidence) == ("github__merge_pull_request", "low"), misspelt


def test_the_name_of_a_product_that_is_not_there_is_not_surely_a_common_word(world: World, ask):
    world.listed(listing("shop", record("shop", "list_stripes", "Lists the stripes of a pattern.")))
    assert ask(world, "list stripes").confidence == "high"
    assert ask(world, "list stripe2").confidence == ask(world, "list strips").confidence == "low"


def test_a_word_that_the_tools_have_in_another_word_is_not_taken_for_one_that_is_spelled_like_it(world: World, ask):
    listed = (
        record("draw", "ease_layer", "Moves a layer smoothly."),
        record("draw", "delete_layer", "Takes a layer away."),
    )
    world.listed(listing("draw", *listed))
    assert names(ask(world, "erase a layer"))[0] == "draw__delete_layer"
