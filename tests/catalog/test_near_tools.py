import random
import string

import pytest

from toolcrib.base.model import LoadingMode, Tool
from toolcrib.catalog.near_tools import near_tools


def near(written, known, server="s"):
    """Return the names of tools of one server that are near."""
    tools = [Tool(row, server, name, name, LoadingMode.DEFERRED, None, False, "") for row, name in enumerate(known)]
    return near_tools(written, tools)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *(("git_lgo", "git_log"), ("ecoh", "echo"), ("zo", "zoo"), ("git_lg", "git_log"), ("gitLog", "git_log")),
        *(("search-isues", "search_issues"), ("get_sumary_statsitics", "get_summary_statistics")),
        *(("issues_list", "list_issues"), ("create_an_issue", "create_issue"), ("get_file", "get_file_contents")),
    ],
)
def test_a_name_of_few_slips_or_of_the_same_words_is_near(written, meant):
    assert near(written, ["devtools_emulate", meant, "something_else", "x", ""]) == [meant]


@pytest.mark.parametrize(
    ("written", "other"),
    [
        *(("nosuch__x", "devtools__emulate"), ("teleport", "create_issue"), ("refund_payment", "create_refund")),
        *(("read_row", "write_row"), ("list_files", "list_tables"), ("update_issue", "create_issue"), ("ab", "ac")),
        *(("", "ping"), ("", "x"), ("get", "get_file"), ("get_file", "get_all_about_each_file_there_is")),
    ],
)
def test_a_name_of_other_words_is_not_near(written, other):
    assert near(written, [other]) == []


def test_the_nearest_is_first_whatever_the_order_and_there_are_three_at_most():
    known = ["git_log", "git_lag", "git_logs", "git_log_graph", "get_log", "push"]
    for seed in range(20):
        random.Random(seed).shuffle(known)
        assert near("gitlog", known) == ["git_log", "get_log", "git_lag"]


def test_one_slip_of_any_kind_is_one_step_away():
    chance = random.Random(1)
    for _ in range(500):
        name = "".join(chance.choices(string.ascii_lowercase, k=chance.randint(4, 20)))
        place = chance.randrange(len(name) - 1)
        letter = chance.choice(string.ascii_lowercase)
        swapped = name[:place] + name[place + 1] + name[place] + name[place + 2 :]
        changed, longer, shorter = (name[:place] + rest for rest in _changes(name, place, letter))
        for slip in (swapped, changed, longer, shorter):
            assert near(slip, [name]) == [name], (slip, name)


def _changes(name, place, letter):
    return letter + name[place + 1 :], letter + name[place:], name[place + 1 :]


def test_a_long_name_of_the_server_allows_no_more_slips():
    server = "a_server_of_a_very_long_name"
    assert near(f"{server}__foo", ["foa", "bar", "get_a_very_long_name"], server) == ["foa"]
    assert near("github_issue_list", ["list_issues"], "github") == ["list_issues"]


def test_a_name_of_any_length_is_compared_in_bounded_time():
    assert near("x" * 1_000_000, ["x" * 64, "y"]) == []
