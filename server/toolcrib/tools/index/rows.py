"""A tool as a row of the index, and back: columns made of a record, values made of columns.

Knows how each value is written into SQLite; never knows a connection or a transaction.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from toolcrib.base.model import Example, JsonObject, LoadingMode, SideEffects, Tool, ToolRecord
from toolcrib.base.text import SearchTexts
from toolcrib.storage.store import to_json

ROW_FORMAT = 4
"""Increased when the row of an unchanged tool would differ."""

GateRow = tuple[str, str, str, str, str | None, int, str, int]
"""The values of ``GATE_COLUMNS``, and the row's id."""


@dataclass(frozen=True, slots=True)
class Card:
    """What a search result shows of a tool."""

    description: str
    signature: str
    tags: tuple[str, ...]
    examples: tuple[Example, ...]


def rows_fingerprint(server_fingerprint: str) -> str:
    """Return the fingerprint under which a server's rows are stored: the relevant config, and the row format."""
    return f"{ROW_FORMAT}.{server_fingerprint}"


def catalog_fingerprint(rows: list[GateRow]) -> str:
    """Return the catalog fingerprint of a server: the hash of names, hashes and gate facts (R30)."""
    return sha256(json.dumps([row[:-1] for row in rows]).encode()).hexdigest()


def tool_of(row: GateRow) -> Tool:
    """Return the in-memory form of a tool."""
    public_name, server, name, loading_mode, side_effects, read_only, fingerprint, number = row
    return Tool(
        row=number,
        server=server,
        name=name,
        public_name=public_name,
        loading_mode=LoadingMode(loading_mode),
        side_effects=SideEffects(side_effects) if side_effects else None,
        read_only=bool(read_only),
        fingerprint=fingerprint,
    )


def columns_of(record: ToolRecord, now: float, search_texts: SearchTexts) -> dict[str, str | float | None]:
    """Return a record as the values of its row, by column: all except ``id``, which SQLite assigns."""
    search_text = search_texts.of
    definition = dict(record.definition)
    if definition.get("name") == record.name:
        del definition["name"]
    description = _storable(definition.get("description"))
    if description:
        del definition["description"]
    examples = [
        {"args": dict(each.args), "description": each.description, "tags": each.tags} for each in record.examples
    ]
    return {
        "name": record.public_name,
        "namespace": record.server,
        "tool": record.name,
        "loading_mode": record.loading_mode.value,
        "side_effects": record.side_effects.value if record.side_effects else None,
        "read_only": int(record.read_only),
        "hash": record.fingerprint,
        "created_at": now,
        "updated_at": now,
        "signature": record.signature,
        "tags": to_json(record.tags),
        "summary": record.summary,
        "body": record.body,
        "examples": to_json(examples),
        "name_text": record.name_text,
        "summary_text": search_text(record.summary),
        "body_text": search_text(record.body),
        "params_text": record.params_text,
        "params_description_text": record.params_description_text,
        "server_text": search_text(record.server),
        "tags_text": search_text(" ".join(record.tags)),
        "description": description,
        "args_schema": _taken(definition, "inputSchema"),
        "out_schema": _taken(definition, "outputSchema"),
        "extra": to_json(definition),
        "mentions": to_json(dict(record.mentions)),
    }


def _storable(value: object) -> str:
    """Return ``value`` if a text column preserves it, else the empty string."""
    if not isinstance(value, str):
        return ""
    return value if value.isascii() or value.encode("utf-8", "ignore").decode() == value else ""


def _taken(definition: JsonObject, key: str) -> str | None:
    """Remove one key from a definition, and return its value as JSON."""
    return to_json(definition.pop(key)) if key in definition else None


def definition_of(
    name: str, description: str, args_schema: str | None, out_schema: str | None, extra: str
) -> JsonObject:
    """Reassemble a definition; ``extra`` has what no column could store."""
    definition: JsonObject = {"name": name}
    if description:
        definition["description"] = description
    if args_schema is not None:
        definition["inputSchema"] = json.loads(args_schema)
    if out_schema is not None:
        definition["outputSchema"] = json.loads(out_schema)
    return definition | json.loads(extra)


def differing_keys(stored: JsonObject, record: ToolRecord) -> tuple[str, ...]:
    """Return the keys in which a stored definition and a record's differ."""
    definition = json.loads(to_json(dict(record.definition)))
    return tuple(sorted(key for key in stored.keys() | definition.keys() if stored.get(key) != definition.get(key)))


def description_of(summary: str, body: str) -> str:
    """Return the description in a search result: the first sentence and the rest, as indexed."""
    return f"{summary} {body}".strip()


def described(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a tool; one without a description is described by its server, name and parameters."""
    name, summary, description, params, _, server, _ = texts
    if summary or description:
        return tuple(texts)
    return (name, " ".join(filter(None, (server, name, params))), *texts[2:])


def card_of(summary: str, body: str, signature: str, tags: str, examples: str) -> Card:
    """Return what a search result shows, from the columns with these names."""
    return Card(
        description=description_of(summary, body),
        signature=signature,
        tags=tuple(json.loads(tags)),
        examples=tuple(
            Example(each["args"], each["description"], tuple(each["tags"])) for each in json.loads(examples)
        ),
    )
