"""A document names no tool that its reader may not use, and says which of the others may have to be found first."""

import re
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.menu import tool as definition
from toolcrib.base.model import BUILTIN_NAMES, Caller, LoadingMode, Tool
from toolcrib.base.names import joined_name, name_digest, public_name, qualified_spellings
from toolcrib.catalog.denied_names import NameMasker, hint
from toolcrib.catalog.snapshot import Catalog
from toolcrib.policy.rules import Policy, VisibilityRule
from toolcrib.policy.sessions import NoActivations, Session
from worlds import world

ANOTHER_TOOL = "another tool"
SERVERS = ("db", "gh", "my-server")
TOOLS = ["db.read_row", "db.drop_table", "db.drop", "db.look", "gh.createIssue", "gh.list-runs", "my-server.drop_table"]
ALWAYS = {"look"}
EVERYONE = Policy()


def reader(policy: Policy = EVERYONE, tools: Sequence[str] = TOOLS) -> NameMasker:
    """Return what reads documents for a caller; a tool that the policy takes from everybody is not indexed."""
    indexed: list[Tool] = []
    for row, spelled in enumerate(tools):
        server, _, name = spelled.partition(".")
        mode = LoadingMode.ALWAYS if name in ALWAYS else LoadingMode.DEFERRED
        if policy.anyone.permits(server, name, public_name(server, name)):
            indexed.append(Tool(row, server, name, public_name(server, name), mode, None, False, "f"))
    return NameMasker(policy.permissions(Caller()), Catalog(indexed), SERVERS, BUILTIN_NAMES)


def denied(*globs: str) -> Policy:
    """Deny tools to everybody: they are not indexed."""
    return Policy(deny=globs)


def hidden(*globs: str) -> Policy:
    """Deny tools to this caller alone: they are indexed."""
    return Policy(rules=[VisibilityRule({}, deny=globs), VisibilityRule({"profile": ("admin",)}, allow=("*",))])


HOW = pytest.mark.parametrize("how", [denied, hidden])


def cleaned(text: str, policy: Policy) -> str:
    masker = reader(policy)
    once, _ = masker.clean(text)
    assert masker.clean(once)[0] == once
    return once


# -- names of denied tools -----------------------------------------------------------------------


@HOW
@pytest.mark.parametrize(
    "spelling",
    [
        "drop_table",
        "db__drop_table",
        "db.drop_table",
        "db/drop_table",
        "db:drop_table",
        "mcp__db__drop_table",
        "drop\\_table",
        "my-server__drop_table",
    ],
)
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "Call {}.",
        "`{}`",
        "``{}``",
        "**{}**",
        "_{}_",
        "__{}__",
        '"{}",',
        "{}(id=1)",
        "- {}'s rows",
        "a/{}/b",
        "x={}",
        "[{}](#a)",
        "not-{}-like",
        "请用{}删除",
        "```\n{}\n```",
        "https://docs.io/tools/{}?a=b",
        "<!-- {} -->",
    ],
)
def test_a_denied_name_is_replaced_wherever_and_however_it_is_written(how, spelling: str, around: str):
    text = cleaned(around.format(spelling), how("drop_table"))
    assert "drop_table" not in text.replace("\\_", "_")
    assert ANOTHER_TOOL in text
    before, after = around.split("{}")
    assert text.startswith(before.rstrip("_"))
    assert text.endswith(after.lstrip("_"))


@HOW
@pytest.mark.parametrize("glob", ["drop_*", "*_table", "db.drop_table", "db__drop*", "*.drop_table", "*/drop_table"])
def test_any_glob_that_denies_a_tool_takes_its_name_out(how, glob: str):
    masker = reader(how(glob), ["db.read_row", "db.drop_table"])
    assert masker.clean("Run drop_table or db.drop_table.")[0] == f"Run {ANOTHER_TOOL} or {ANOTHER_TOOL}."


JOINED = [
    "dropEverything",
    "DropEverything",
    "drop-everything",
    "Drop-Everything",
    "DROP_EVERYTHING",
    "db.dropEverything",
]


@HOW
@pytest.mark.parametrize("glob", ["drop_everything", "db.drop_everything", "drop_*", "*.drop*"])
@pytest.mark.parametrize("spelling", [*JOINED, "db-drop-everything", "dbDropEverything"])
@pytest.mark.parametrize("around", ["Then {} it.", "`{}`", "not {}-like", '"{}"', "{}(id=1)", "```\n{}\n```"])
def test_a_denied_name_is_replaced_however_its_words_are_joined(how, glob: str, spelling: str, around: str):
    policy, tools = how(glob), ["db.read_row", "db.drop_everything"]
    withheld = [] if how is hidden else [name_digest(joined_name("drop_everything"))]
    if how is denied and "-" not in glob and "db" in spelling and "." not in spelling and "db." not in glob:
        return  # of a server that was never listed, nobody knows that the tool is its own
    known = reader(policy, tools).catalog.tools
    masker = NameMasker(policy.permissions(Caller()), Catalog(known, withheld=withheld), SERVERS, BUILTIN_NAMES)
    if spelling.count("-") and "-like" in around:
        return  # one word of several hyphens
    left = masker.clean(around.format(spelling))[0]
    assert "verything" not in left.lower()
    assert "another" in left
    assert masker.clean(left)[0] == left


@HOW
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("`Drop Everything` does it.", f"`{ANOTHER_TOOL}` does it."),
        ("``drop everything``", f"``{ANOTHER_TOOL}``"),
        ("Use the Drop Everything tool.", "Use the other tool."),
        ("Use the useful drop everything tool.", "Use the useful another tool."),
        ('Call "Drop everything" tool.', 'Call "another" tool.'),
        ('The tool named "Drop Everything".', f'The tool named "{ANOTHER_TOOL}".'),
        ("Call the Drop Everything MCP tool.", f"Call the {ANOTHER_TOOL} MCP tool."),
        # Elsewhere these are words, and so is what the words are part of.
        ("It will drop everything. Drop Everything!", None),
        ("`please drop everything now`", None),
        ("The drop, everything tool.", None),
        ("The dropeverything and `dropeverything` tool.", None),
        ("drop/everything or drop.everything", None),
    ],
)
def test_words_apart_are_a_denied_name_in_code_marks_and_where_they_are_called_a_tool(how, text: str, left: str | None):
    masker = reader(how("drop_everything"), ["db.read_row", "db.drop_everything"])
    once = masker.clean(text)[0]
    assert once == (text if left is None else left)
    assert masker.clean(once)[0] == once


@HOW
def test_a_permitted_tool_whose_words_are_joined_in_another_way_keeps_its_name(how):
    masker = reader(how("db.drop_everything"), ["db.drop_everything", "gh.dropEverything"])
    text = "First dropEverything, then `Drop Everything`."
    if how is hidden:
        assert masker.clean(text)[0] == text
    assert masker.clean("db.drop_everything")[0] == ANOTHER_TOOL


def test_names_that_a_skill_lists_and_nobody_has_go_in_the_same_spellings():
    masker = reader(denied("db.drop"), ["db.read_row", "db.drop"])
    lost = masker.lost(("db__burn_all",))
    assert lost == {"db__burn_all"}
    left = masker.without_names("burnAll, burn-all, `Burn All`, dbBurnAll and burn all.", lost)
    assert left == f"{ANOTHER_TOOL}, {ANOTHER_TOOL}, `{ANOTHER_TOOL}`, {ANOTHER_TOOL} and burn all."


@HOW
@pytest.mark.parametrize("spelling", ["createIssue", "gh.createIssue", "list-runs", "gh__list-runs"])
def test_names_of_several_words_are_names_in_prose_too(how, spelling: str):
    text = f"First {spelling}, then go on."
    assert cleaned(text, how("createIssue", "list-runs")) == f"First {ANOTHER_TOOL}, then go on."


@HOW
def test_a_name_of_one_plain_word_is_a_name_in_code_marks_only(how):
    text = (
        "Drop it, or drop all: `drop`.\n\n```sh\ndrop 1\n```\n\n~~~\nif x: drop()\n~~~\n\nThen drop `a` and drop `b`.\n"
    )
    assert cleaned(text, how("drop")) == text.replace("`drop`", f"`{ANOTHER_TOOL}`").replace(
        "drop 1", f"{ANOTHER_TOOL} 1"
    ).replace("drop()", f"{ANOTHER_TOOL}()")


@HOW
@pytest.mark.parametrize("spelling", ["db.drop", "db__drop", "db:drop", "db/drop", "mcp__db__drop"])
def test_with_its_server_a_name_of_one_word_is_a_name_in_prose_too(how, spelling: str):
    assert cleaned(f"Then {spelling} it.", how("db.drop")).endswith(f"{ANOTHER_TOOL} it.")


@HOW
@pytest.mark.parametrize(
    "text",
    [
        "Read it at https://db.drop.io/x, https://drop:1@db.drop/ or on db.drop.io or gh.com/owner.",
        "A `drop-in` part, `drop_in`, dropping, `dropped`, a drop in the `ocean`, drop table, drop-tables.",
        "```\ncurl https://api.io/drop?x=drop\n```",
        "tool_search, tool_call and skill_get find what drops.",
    ],
)
def test_what_only_looks_like_a_denied_name_stays(how, text: str):
    assert cleaned(text, how("drop", "db.drop", "*_search", "*_call", "gh.*", "drop_table")) == text


@HOW
def test_whatever_belongs_to_a_denied_server_is_denied_with_the_server_named(how):
    text = cleaned("Run db.vacuum_all, db__read_row and gh.look_up.", how("db.*"))
    assert text == f"Run {ANOTHER_TOOL}, {ANOTHER_TOOL} and gh.look_up."


def test_what_no_allow_speaks_of_is_denied():
    policy = Policy(allow=["gh.*"])
    assert cleaned("Run db.drop_table, gh.createIssue.", policy) == f"Run {ANOTHER_TOOL}, gh.createIssue."


def test_a_name_that_a_permitted_tool_has_too_is_no_secret():
    text = "Run drop_table, my-server.drop_table, not db.drop_table."
    for policy in (hidden("db.*"), hidden("db.drop_table"), denied("db.drop_table")):
        assert cleaned(text, policy) == f"Run drop_table, my-server.drop_table, not {ANOTHER_TOOL}."


@HOW
def test_a_plain_word_that_the_text_calls_a_tool_is_a_name(how):
    text = cleaned("Drop it with the drop tool, or use drop tool; to drop, call the tool drop.", how("drop"))
    assert text == "Drop it with the other tool, or use another tool; to drop, call the tool another tool."


def test_a_name_that_only_its_server_knows_is_known_once_it_is_listed():
    text = "Run drop_table or `vacuum`, not vacuum or db.look."
    listed = Catalog([], withheld=[name_digest("drop_table"), name_digest("vacuum")])
    view = Policy(allow=["gh.*"]).permissions(Caller())
    assert NameMasker(view, listed, SERVERS, ()).clean(text)[0] == (
        f"Run {ANOTHER_TOOL} or `{ANOTHER_TOOL}`, not vacuum or {ANOTHER_TOOL}."
    )
    assert NameMasker(view, Catalog([]), SERVERS, ()).clean(text)[0] == (
        f"Run drop_table or `vacuum`, not vacuum or {ANOTHER_TOOL}."
    )


@HOW
def test_a_glob_does_not_make_names_of_words_that_only_look_alike(how):
    text = "Sorted by `createdAt`, re-created, `created`; not createIssue, create_issue or gh.created."
    known = ["gh.createIssue", "db.read_row"]
    kept, taken = "Sorted by `createdAt`, re-created, `created`; not", f"{ANOTHER_TOOL} or {ANOTHER_TOOL}."
    left = reader(how("*create*"), known).clean(text)[0]
    assert left == f"{kept} {ANOTHER_TOOL if how is hidden else 'createIssue'}, {taken}"


def test_to_deny_everything_does_not_make_every_word_a_name():
    for glob in ("*", "*.*", "*__*"):
        text = cleaned("A well-known e.g. index.md, snake_case, `code`; db.drop_table, though.", hidden(glob))
        assert text == f"A well-known e.g. index.md, snake_case, `code`; {ANOTHER_TOOL}, though."


def test_who_may_use_everything_reads_everything():
    text = "drop_table `drop` db.drop_table [tool not available]"
    assert reader().clean(text)[0] == text


def test_where_nothing_is_denied_a_list_keeps_what_nobody_has():
    names = ("Read", "drop", "no_such_tool", "db.nothing")
    assert reader().clean_names(names) == names


@HOW
def test_a_list_of_tools_keeps_what_the_caller_has_and_what_is_a_hosts_own(how):
    masker = reader(how("drop*"))
    names = ["mcp__db__read_row", "read_row", "no_such_tool", "nothing", "My DB/look", "skill_get", "gh.createIssue_2"]
    assert masker.clean_names(names) == ("mcp__db__read_row", "read_row", "My DB/look", "skill_get")


@HOW
def test_lists_of_tools_lose_the_denied_ones(how):
    masker = reader(how("drop*"))
    names = ["Read", "drop", "mcp__db__drop_table", "Bash(git:*)", "db.read_row", "mcp__db__*", "`drop`", "Drop"]
    assert masker.clean_names(names) == ("Read", "Bash(git:*)", "db.read_row", "mcp__db__*", "Drop")


LETTERS = st.text("abcdXY", min_size=1, max_size=4)
NAMES = st.builds("{}{}{}".format, LETTERS, st.sampled_from("_-"), LETTERS)
BETWEEN = st.text(" .,:;()[]`~*\n\"'|=<>#!?\u4e2d", min_size=1, max_size=3)


@given(st.data(), NAMES, st.booleans())
def test_no_spelling_of_a_denied_name_survives_in_any_text(data: st.DataObject, name: str, is_indexed: bool):
    spellings = st.sampled_from([name, *qualified_spellings("db", name, public_name("db", name))])
    words = st.lists(st.one_of(spellings, NAMES, LETTERS), min_size=1, max_size=8)
    text = "".join(data.draw(BETWEEN) + word for word in data.draw(words)) + data.draw(BETWEEN)
    policy = hidden(name) if is_indexed else denied(name)
    masker = reader(policy, [f"db.{name}", "gh.other_one"])
    once, _ = masker.clean(text)
    assert not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", once, re.ASCII)
    assert masker.clean(once)[0] == once
    assert reader(denied(name), ["gh.other_one"]).clean(text)[0] == once
    assert once.count("\n") == text.count("\n")


def test_nothing_is_kept_of_the_words_that_are_read_for_a_skill_with_names_that_nobody_has():
    masker, text = reader(hidden("drop*")), " ".join(f"word_{number}" for number in range(2000))
    masker.without_names(text, frozenset(["other_tool"]))
    tracemalloc.start()
    try:
        masker.without_names(text, frozenset(["no_such_tool"]))
        assert tracemalloc.get_traced_memory()[0] < 20_000
    finally:
        tracemalloc.stop()


# -- names of permitted tools --------------------------------------------------------------------


def test_the_permitted_tools_that_a_list_may_lack_are_told_in_order_once():
    text = "Use gh.createIssue, `db__read_row`, createIssue, look, db.look, nothing_else, then drop_table of db."
    assert reader().clean(text)[1] == ("gh__createIssue", "db__read_row")
    assert reader(hidden("my-server.*")).clean(text)[1] == ("gh__createIssue", "db__read_row", "db__drop_table")
    assert reader(hidden("*_row")).clean(text)[1] == ("gh__createIssue",)


def test_a_name_of_one_plain_word_is_a_mention_only_where_it_stands_alone_in_code_marks():
    masker = reader()
    assert masker.clean("To drop all, `drop`.")[1] == ("db__drop",)
    for text in ("drop", "`drop table`", "```\ndrop 1\n```", "`look`", "`a` drop `b`"):
        assert masker.clean(text)[1] == ()


def test_five_tools_are_enough():
    tools = [f"db.tool_{number}" for number in range(9)]
    assert len(reader(tools=tools).clean(" ".join(tools))[1]) == 5


def test_where_nothing_is_deferred_and_nothing_denied_there_is_nothing_to_say():
    assert reader(tools=["db.look"]).clean("db.look `look`") == ("db.look `look`", ())


def test_the_hint_names_the_tools_and_how_to_reach_them():
    assert hint(()) == ""
    assert hint(["a__b", "c__d"]) == (
        "If a tool named here is not listed, call it with toolcrib's tool_call, find it with tool_search: a__b, c__d"
    )


# -- the gate ------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_the_gate_reads_for_each_kind_of_caller_and_anew_when_the_catalog_changes(tmp_path):
    config = {"policy": {"visibility": [{"when": {"tenant_id": "red"}, "deny": ["drop_*"]}]}}
    tools = [definition("read_row"), definition("drop_table")]
    async with world(tmp_path, {"db": tools}, config) as w:
        crib = w.gateway.tools
        red, blue = (
            Session("s", Caller(tenant_id=tenant), NoActivations(), growing=False) for tenant in ("red", "blue")
        )
        catalog = crib.indexer.current()
        text = "read_row, then drop_table"
        assert crib.gate.masker(red, catalog).clean(text) == (f"read_row, then {ANOTHER_TOOL}", ("db__read_row",))
        assert crib.gate.masker(blue, catalog).clean(text) == (text, ("db__read_row", "db__drop_table"))
        assert crib.gate.masker(red, catalog) is crib.gate.masker(red, catalog)
        await w.change("db", definition("drop_table"))
        assert crib.gate.masker(red, crib.indexer.current()).clean(text)[1] == ()
