"""Foreign tools around a set: made of the set's own by renaming what they are about and recombining what is said.

Knows the words of names and the sentences of descriptions; never knows queries or which tool is right.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any

from retrieval_data import Document
from toolcrib.base.text import spelling_key, words

THINGS = (
    "parcel shipment warehouse pallet carrier invoice refund coupon loyalty basket tenant lease meter outage turbine "
    "sensor gateway firmware playlist album lyric podcast recipe pantry menu booking itinerary visa luggage flight "
    "hotel clinic patient dosage allergy syllabus lecture grade enrolment tutor essay thesis citation genome specimen "
    "assay telescope orbit glacier tide forecast herd pasture harvest irrigation orchard vineyard ledger payroll "
    "pension claim premium mortgage escrow auction bidder donation petition ballot census permit zoning docket verdict "
    "contract clause trademark patent cargo vessel harbor crew timetable platform tram bicycle charger tyre mileage "
    "fitness workout stretch sleep heartbeat diary habit puzzle tournament league referee stadium ticket seat choir "
    "canvas sculpture gallery costume fabric sewing furnace kiln ceramic solder circuit antenna beacon satellite drone"
).split()
"""What foreign tools are about: things of other trades than software."""

_VERBS_AND_SMALL = frozenset(
    "add all apply archive assign batch bulk by call cancel check clear close commit compare copy count create delete "
    "describe disable enable execute export fetch find for from generate get has import in insert is list lookup make "
    "merge move new of open patch pause post publish pull push put query read remove rename reset restore resume run "
    "save search send set show sort start stop submit sync test to unassign update upload validate view "
    "with write".split()
)
_WORD = re.compile(r"[A-Za-z]{4,}")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_TOOLS_PER_SERVER = 50
_RENAMED_SHARE, _KEPT_SHARE = 0.6, 0.5


def foreign(documents: Sequence[Document], number: int, seed: int = 1) -> list[Document]:
    """Return so many foreign tools, the same for the same arguments; none has the name of one of ``documents``."""
    return list(islice(_foreign(documents, random.Random(seed)), number))


def _foreign(documents: Sequence[Document], chance: random.Random) -> Iterator[Document]:
    taken = {spelling_key(document.name) for document in documents}
    subjects = sorted({word for each in documents for word in words(each.name)} - _VERBS_AND_SMALL)
    for server in count():
        trade = chance.sample(THINGS, 3)
        key = f"{trade[0]}-{trade[1]}-{server}"
        renamed = {word: chance.choice(trade + subjects) for word in subjects if chance.random() < _RENAMED_SHARE}
        made = 0
        while made < _TOOLS_PER_SERVER:
            one, other = chance.choice(documents), chance.choice(documents)
            name = "_".join(renamed.get(word, word) for word in words(one.name)) or trade[2]
            if spelling_key(name) in taken:
                name = f"{name}_{chance.choice(trade)}"
            made += 1
            if spelling_key(f"{key}{name}") in taken or spelling_key(name) in taken:
                continue
            taken.add(spelling_key(f"{key}{name}"))
            yield _document(key, name, (one, other), renamed, chance)


def _document(
    key: str, name: str, made_of: tuple[Document, Document], renamed: Mapping[str, str], chance: random.Random
) -> Document:
    one, other = (_SENTENCE_END.split(each.description.strip()) for each in made_of)
    said = [sentence for sentence in (*one[1:], *other) if chance.random() < _KEPT_SHARE]
    description = _renamed(" ".join([*one[:1], *said[:4]]), renamed)
    schemas = [each.definition.get("inputSchema") or {} for each in made_of]
    properties: dict[str, Any] = {}
    for schema in schemas:
        for parameter, value in (schema.get("properties") or {}).items():
            if chance.random() < _KEPT_SHARE:
                properties[_renamed(parameter, renamed)] = _with_description(value, renamed)
    definition = {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties},
    }
    return Document(f"{key}/{name}", name, description, (), key, definition)


def _with_description(value: Any, renamed: Mapping[str, str]) -> dict[str, Any]:
    told = value.get("description") if isinstance(value, dict) else None
    return {"type": "string", "description": _renamed(told, renamed)} if isinstance(told, str) else {"type": "string"}


def _renamed(text: str, renamed: Mapping[str, str]) -> str:
    return _WORD.sub(lambda found: renamed.get(found[0].lower(), found[0]), text)
