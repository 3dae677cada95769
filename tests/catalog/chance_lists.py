"""Lists of tools made by chance of few words, what is asked about them, and the answers with all that they tell."""

import random
from collections.abc import Sequence
from dataclasses import replace as with_changes

from builders import GUEST, World, guests_without, listing, record
from hypothesis import strategies as st

from toolcrib.base.model import Ingest, ToolRecord
from toolcrib.catalog.tool_search import SearchRequest
from toolcrib.policy.rules import Policy

WORDS = "list lists get issue issues file files paint wall create delete repository search code user users".split()
GUESTS = guests_without("hidden__*", "*__delete*")
POLICIES = {"all": Policy(), "guests": GUESTS}

misspelt = st.sampled_from(["lsit issues", "repositry", "creat file", "fil", "webhook paint", "isues", "paintwall"])


def phrase(chance: random.Random, most: int = 6) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, most)))


def tools(server: str, most: int, chance: random.Random) -> Ingest:
    names = {"_".join(phrase(chance, 3).split()) for _ in range(chance.randint(0, most))}
    return listing(server, *(tool(server, name, chance) for name in sorted(names)))


def tool(server: str, name: str, chance: random.Random) -> ToolRecord:
    # Most have the same parameter, so that it counts for nothing.
    properties = {word: {"description": phrase(chance)} for word in chance.sample(WORDS, chance.randint(0, 2))}
    if chance.random() < 0.75:
        properties["user_code"] = {"description": "The code of a user."}
    named = "hidden__list_files" if chance.random() < 0.2 else ""
    text = f"{phrase(chance)}. {phrase(chance)} {named}"
    definition = {"name": name, "description": text, "inputSchema": {"type": "object", "properties": properties}}
    made = record(server, name, definition=definition, tags=phrase(chance, 2).split())
    return with_changes(made, mentions={"body_text": (named,)} if named else {})


def answers(world: World, policy: Policy, requests: Sequence[SearchRequest]) -> list[object]:
    catalog = world.catalog()
    some = catalog.permitted(policy.permissions(GUEST))
    found = [world.searcher.search(request, catalog, some) for request in requests]
    return [
        ([(m.document.public_name, m.score, m.match_type, m.reason) for m in each.matches], *facts)
        for each in found
        for facts in [(each.count, each.confidence, each.strength, each.note)]
    ]


requests = st.builds(
    SearchRequest,
    query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join) | misspelt,
    limit=st.integers(1, 20),
    server=st.sampled_from([None, None, "git", "hidden"]),
)
