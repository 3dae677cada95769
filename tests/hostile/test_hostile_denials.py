"""Many random denials over the lists of many servers: no name of a denied tool is left in what a caller reads."""

import random

import pytest
from builders import REAL_CATALOG
from denials import HOWS, How, Lists, check, denial, indexed, policy_of, real_lists, some

from fakes.menu import tool
from toolcrib.catalog.snapshot import Catalog

pytestmark = pytest.mark.hostile

BETWEEN = (" ", ", ", ". ", "\n", "\n\n", " `", "` ", "``", "(", ") ", "'", '"', "/", ": ", "**", "_", "-", "中")
WORDS = (
    "the",
    "tool",
    "tools",
    "call",
    "use",
    "and",
    "a",
    "search",
    "list",
    "```\n",
    "\n```\n",
    "https://x.io/",
    "a_b",
)
NAMES = ("get", "list", "search_all", "listRuns", "find-rows", "drop", "a.b", "drop_table", "x", "readFile_2")


def scrambled(dice: random.Random) -> Lists:
    """Return lists whose texts are names and words in any order, with anything between them."""
    servers = ("db", "web.site", "my-server")
    names = [*NAMES, *(f"{server}{mark}{name}" for server in servers for mark in "./:" for name in NAMES[:5])]

    def text() -> str:
        parts = [dice.choice(names if dice.random() < 0.5 else WORDS) + dice.choice(BETWEEN) for _ in range(30)]
        return "".join(parts)

    return {
        server: [
            tool(name, text(), {"p": {"description": text(), "examples": [text()]}}, title=text())
            for name in dice.sample(NAMES, 6)
        ]
        for server in servers
    }


@pytest.mark.parametrize("seed", range(40))
def test_no_name_is_left_whatever_stands_around_it(tmp_path, seed: int):
    dice = random.Random(seed)
    lists = scrambled(dice)
    how = HOWS[seed % len(HOWS)]
    denied = some(lists, dice)
    policy = policy_of(denied, lists, how)
    with indexed(tmp_path, lists, policy) as (index, catalog):
        check(denial(index, catalog, policy, denied, lists), words_too=False)


@pytest.mark.skipif(not REAL_CATALOG.is_dir(), reason=f"the lists of real servers are not at {REAL_CATALOG}")
@pytest.mark.parametrize("how", HOWS)
def test_nor_in_the_lists_of_all_real_servers(tmp_path, how: How):
    lists, dice = real_lists(), random.Random(41)
    rounds, naming = (15 if how == "hidden" else 2), 0
    with indexed(tmp_path, lists) as (index, catalog):
        for number in range(rounds):
            denied = some(lists, dice)
            policy = policy_of(denied, lists, how)
            if how == "hidden":
                naming += check(denial(index, Catalog(catalog.tools), policy, denied, lists))
                continue
            (tmp_path / str(number)).mkdir()
            with indexed(tmp_path / str(number), lists, policy) as (own_index, own_catalog):
                naming += check(denial(own_index, own_catalog, policy, denied, lists))
    assert naming > rounds
