"""The dictionary of capabilities: what shows one, what does not, and how a file that cannot be read is named."""

import re
from collections.abc import Iterator
from importlib.resources import files

import pytest

from toolcrib.base.text import search_text, words
from toolcrib.search.capabilities import Capabilities, CapabilityError, shipped
from toolcrib.search.english import stem

TEXT = files("toolcrib.search").joinpath("capabilities.txt").read_text(encoding="utf-8")
SHIPPED = shipped()

OWN = """
# A comment.
[shop]
THING = order|parcel-label

refund an order: refund THING; CREATE refund
  give the money back; undo a purchase

list orders: LIST|get order
  what did people buy

get an order: get order
  tell me about one purchase

[files]
list files: LIST file
  what is in there

delete a file: delete file -draft (disk path) (-shop)
  throw it away

add to an album: add photo to album
  keep it with the others
"""
DICTIONARY = Capabilities([("own.txt", OWN)])


def shown(name: str, summary: str = "", *others: str, server: str = "", known: Capabilities = DICTIONARY) -> list[str]:
    found = known.shown(name, summary, server, others)
    return [each.capability.name for each in found]


@pytest.mark.parametrize(
    ("name", "summary"),
    [
        ("refund order", ""),
        ("order refund", ""),
        ("acme refund order v 2", ""),
        ("refund orders by id", ""),
        ("refund parcel label", ""),
        ("create refund", ""),
        ("x", "refunds an order of a customer"),
        ("x", "this tool allows you to refund the order with a reason"),
        ("issue", "create a new refund for one order"),
    ],
)
def test_a_tool_shows_a_capability_by_verb_and_object_in_its_name_or_summary(name: str, summary: str) -> None:
    assert shown(name, summary) == ["refund an order"]


@pytest.mark.parametrize(
    ("name", "summary"),
    [
        ("order", ""),
        ("refund", ""),
        ("unrefund order", ""),
        ("cancel refund order", ""),
        ("refund order note", ""),
        ("refund file order", ""),
        ("x", "after you refund an order"),
        ("x", "says whether somebody may refund an order"),
        ("x", "unstages what would refund an order"),
    ],
)
def test_another_verb_or_object_or_a_thing_of_another_domain_shows_nothing(name: str, summary: str) -> None:
    assert not {*shown(name, summary)} - {"delete a file"}


def test_what_lists_is_told_from_what_gets_one() -> None:
    assert shown("list orders") == ["list orders"]
    assert shown("get orders") == ["list orders"]
    assert shown("order list") == ["list orders"]
    assert shown("get order") == ["get an order"]
    assert shown("x", "get the properties and relationships of an order") == ["get an order"]


def test_a_name_without_a_verb_shows_what_only_looks() -> None:
    assert shown("orders") == ["list orders"]


def test_words_in_parentheses_must_be_somewhere_and_those_with_a_hyphen_must_not() -> None:
    assert shown("delete file") == []
    assert shown("delete file", "", "from this disk") == ["delete a file"]
    assert shown("delete file", "", "from this disk", server="shop") == []
    assert shown("delete draft file", "", "from this disk") == []
    assert shown("delete file", "", "drafts stay on this disk") == ["delete a file"]


def test_what_follows_a_preposition_in_a_sign_may_be_anywhere_behind_or_before() -> None:
    assert shown("add photo to album") == ["add to an album"]
    assert shown("album add photo") == ["add to an album"]
    assert shown("add photo") == []


def test_the_ways_are_distinct_words_without_those_that_say_nothing_and_a_mark() -> None:
    *ways, mark = DICTIONARY.ways("refund order", "", "", ()).split()
    assert ways == "refund order money back undo purchase".split()
    assert stem(mark) == mark
    assert words(mark) != [mark]
    assert DICTIONARY.ways("sing", "", "", ()) == ""


def asked(request: str) -> list[tuple[str, float]]:
    """Return the capabilities that a request asks for, each as its mark, with its share of the request."""
    found = DICTIONARY.asked({stem(word): 1.0 for word in request.split()})
    return [(each.mark, round(each.share, 2)) for each in found]


def mark(name: str, *others: str) -> str:
    return DICTIONARY.ways(name, "", "", others).split()[-1]


def test_a_request_asks_for_the_capability_whose_ways_have_most_of_it() -> None:
    assert asked("money back") == [(mark("refund order"), 1.0)]
    (first, share), *_ = asked("throw money away")
    assert first == mark("delete file", "on disk")
    assert 0.5 < share < 1
    assert asked("zeppelin") == []
    assert [*Capabilities().asked({"money": 1.0})] == []


def test_no_dictionary_gives_no_ways() -> None:
    assert Capabilities().ways("refund order", "", "", ()) == ""
    assert Capabilities().digest == ""


def test_another_text_has_another_digest() -> None:
    assert Capabilities([("a", OWN)]).digest != DICTIONARY.digest != Capabilities([("own.txt", OWN + "#")]).digest


def test_files_of_a_person_add_to_what_ships() -> None:
    more = shipped((("own.txt", OWN.replace("order", "zeppelin")),))
    assert "refund an zeppelin" in shown("refund zeppelin", known=more)
    assert shown("merge pull request", known=more) == ["merge a pull request"]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a b\n", 1, "an entry begins with"),
        ("[s]\nx: \n  way\n", 2, "an entry begins with"),
        ("  way\n", 1, "ways of asking are indented"),
        ("x: do thing\n\ny: do other\n  way\n", 1, '"x" has no ways of asking'),
        ("# c\nx: do thing\n", 2, '"x" has no ways of asking'),
        ("x: NOTHING thing\n  way\n", 1, '"NOTHING" is neither a group defined above nor an action'),
        ("x: to thing\n  way\n", 1, "names no object"),
        ("x: do ...\n  way\n", 1, "an alternative without a word"),
    ],
)
def test_an_error_names_the_file_and_the_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(CapabilityError, match=re.escape(f"mine.txt, line {line}: ")) as raised:
        _ = Capabilities([("mine.txt", text)]).every
    assert reason in raised.value.reason
    assert (raised.value.source, raised.value.line) == ("mine.txt", line)


# -- what ships ------------------------------------------------------------------------------------


def signs() -> Iterator[tuple[str, str, str]]:
    """Yield each sign of the shipped file as an entry's name, a tool that should show it, and words besides."""
    groups: dict[str, str] = {}
    for line in TEXT.splitlines():
        if not line.strip() or line[0] in "#[ ":
            continue
        name, _, rest = line.partition(":")
        if "=" in name:
            key, _, words = line.partition("=")
            groups[key.strip()] = words.strip()
            continue
        for sign in filter(None, map(str.strip, rest.split(";"))):
            context = " ".join(re.findall(r"\(([^()]*)\)", sign))
            near = " ".join(each.replace("-", " ") for each in context.split() if not each.startswith("-"))
            tokens = [each for each in re.sub(r"\([^()]*\)", " ", sign).split() if not each.startswith("-")]
            yield name, " ".join(map(_first, tokens, [groups] * len(tokens))), near


def _first(token: str, groups: dict[str, str]) -> str:
    alternative = token.split("|", maxsplit=1)[0]
    alternative = groups.get(alternative, alternative).split("|")[0]
    return alternative.lower().replace("-", " ")


def test_each_entry_is_shown_by_a_tool_that_its_first_sign_describes() -> None:
    firsts: dict[str, tuple[str, str]] = {}
    for name, tool, near in signs():
        firsts.setdefault(name, (tool, near))
    missing = {name: tool for name, (tool, near) in firsts.items() if not _is_shown(name, tool, near)}
    assert missing == {}


def _is_shown(name: str, tool: str, near: str) -> bool:
    spoken = f"{tool}s" if name.startswith("list ") else tool
    return any(name in shown(search_text(each), "", search_text(near), known=SHIPPED) for each in (tool, spoken))


def test_names_and_ways_are_plain_and_not_said_twice() -> None:
    names = [each.name for each in SHIPPED.every]
    assert len(names) == len(set(names))
    for each in SHIPPED.every:
        assert len(each.ways) == len(set(each.ways)), each.name
        assert all(way == way.strip().lower() or way.isascii() for way in each.ways), each.name
