"""One bit of a definition that is turned is a change that is noticed; the same definition written otherwise is none."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from counts import count

from toolcrib.catalog.ingest import Shaping, ingest
from toolcrib.config.schema import LimitsSection, ServerSection, ToolExamplesSection, ToolSearchSection
from toolcrib.config.settings import ServerSettings, StdioTarget
from toolcrib.policy.rules import Policy

pytestmark = pytest.mark.hostile

SHAPING = Shaping(Policy(), LimitsSection(), ToolSearchSection(), ToolExamplesSection(), fits=lambda *_: True)
SERVER = ServerSettings("git", StdioTarget("x", (), {}, None), ServerSection(), "f")
DEFINITION: dict[str, Any] = {
    "name": "commit",
    "title": "Commit",
    "description": "Records changes in the repository. Asks for nothing, and sends nothing.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "message": {"type": "string", "description": "What was done.", "minLength": 1},
            "all": {"type": "boolean", "default": False},
            "sign": {"enum": ["yes", "no"], "description": "Whether to sign."},
        },
        "required": ["message"],
    },
    "outputSchema": {"type": "object", "properties": {"id": {"type": "string", "description": "Its hash."}}},
    "annotations": {"title": "Commit", "readOnlyHint": False, "destructiveHint": True},
}
Place = tuple[Any, ...]


def texts(value: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Yield every text of a definition that a reader may see, with its place."""
    if isinstance(value, str):
        yield place, value
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from texts(inner, (*place, key))


def with_text(place: Place, text: str) -> dict[str, Any]:
    changed = copy.deepcopy(DEFINITION)
    holder: Any = changed
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = text
    return changed


def fingerprint(definition: dict[str, Any]) -> str:
    """Return what a definition is known by; its refusal, where it is refused."""
    taken = ingest(SERVER, [definition], SHAPING)
    return taken.records[0].fingerprint if taken.records else f"refused: {taken.refused[0].reason}"


def shuffled(value: Any, chance: random.Random) -> Any:
    """Return the same JSON with the keys of its objects in another order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key], chance) for key in chance.sample(list(value), len(value))}
    return [shuffled(each, chance) for each in value] if isinstance(value, list) else value


def test_every_turned_bit_is_noticed_and_no_other_order_of_keys(record_property):
    chance, before, places = random.Random(7), fingerprint(DEFINITION), list(texts(DEFINITION))
    unnoticed, bits = list[tuple[Place, str]](), 0
    for _ in range(count("definitions")):
        bits += 1
        place, text = chance.choice(places)
        at = chance.randrange(len(text))
        turned = text[:at] + chr(ord(text[at]) ^ (1 << chance.randrange(7))) + text[at + 1 :]
        if fingerprint(with_text(place, turned)) == before:
            unnoticed.append((place, turned))
    others = max(50, count("definitions") // 10)
    written = [json.dumps(shuffled(DEFINITION, chance), indent=chance.choice((None, 1, 4))) for _ in range(others)]
    false = sum(fingerprint(json.loads(text)) != before for text in written)
    record_property("count", bits)
    record_property("worst", f"{bits - len(unnoticed)} of {bits} bits noticed; {false} of {others} orders of keys")
    assert unnoticed == []
    assert false == 0
