"""Servers and tools whose names look alike: no two have the same public name, and none has one of toolcrib's own."""

import random
import re
import unicodedata

import pytest
from counts import count

from toolcrib.base.model import BUILTIN_NAMES
from toolcrib.base.names import public_name

pytestmark = pytest.mark.hostile

LETTERS = (
    "a",
    "A",
    "_",
    "__",
    "-",
    ".",
    "b",
    "/",
    " ",
    "\u0430",
    "\u00e9",
    "e\u0301",
    "\u200b",
    "\uff41",
    "1",
    "l",
    "I",
)
ALLOWED = re.compile(r"[A-Za-z0-9_.-]{1,64}")
NAME_MAX = 64


def alike(chance: random.Random) -> str:
    """Return a name; some are long and differ at their end only, some are another's in another normal form."""
    name = "".join(chance.choices(LETTERS, k=chance.randint(1, 5)))
    match chance.randrange(6):
        case 0:
            return "x" * chance.randint(30, 300) + name
        case 1:
            return unicodedata.normalize(chance.choice(("NFC", "NFD", "NFKC")), name)
        case 2:
            return chance.choice((*BUILTIN_NAMES, "toolcrib", "tool")) + chance.choice(("", "_", " ", name))
        case _:
            return name


def test_no_two_pairs_share_a_name_and_none_takes_one_of_ours(record_property):
    chance, pairs = random.Random(7), set[tuple[str, str]]()
    while len(pairs) < count("names"):
        pairs.add((alike(chance), alike(chance)))
    public = [public_name(server, tool, NAME_MAX) for server, tool in pairs]
    same = len(public) - len(set(public))
    record_property("count", len(pairs))
    record_property("worst", f"{same} of {len(pairs)} share a name")
    assert same == 0
    assert set(BUILTIN_NAMES).isdisjoint(public)
    assert all(ALLOWED.fullmatch(name) for name in public)
