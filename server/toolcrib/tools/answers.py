"""Answers of the tools' use cases: plain values, what they show of a tool, and their JSON for programs.

Knows the fields of an answer and how long its texts are; never knows how anything was found, nor the protocol.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from toolcrib.base.cache import RecentBy
from toolcrib.base.json_values import compact
from toolcrib.base.model import Example, JsonObject, SearchType, Tool
from toolcrib.base.text import one_line, split_summary, truncate
from toolcrib.downstream.states import DOWN
from toolcrib.search.documents import Found
from toolcrib.tools.definitions.examples import shortest
from toolcrib.tools.index.rows import Card
from toolcrib.tools.wording import Wording

_SHORT_MAX, _LONG_MAX = 100, 600
"""Maximum length of a description, brief and full."""
_EXAMPLE_MAX = 120
"""Maximum length of an example in a brief answer."""
_BRIEFS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Shown:
    """The shown part of a tool's definition: its signature and a short example, or its schema and all examples."""

    description: str
    signature: str | None = None
    input_schema: JsonObject | None = None
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundTool:
    """One search hit, with the requested level of detail.

    ``score`` is in [0, 1] and comparable only within one answer; ``status`` is its server's state, if that matters.
    ``owner`` is the skill that makes the tool available, if it is scoped to skills.
    """

    tool: Tool
    shown: Shown
    score: float
    match_type: str
    activated: bool
    status: str | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The answer of ``tool_search``. ``usage`` says how to call the hits, ``note`` why there are no more.

    ``evidence`` is what ``confidence`` is derived from, comparable between queries.
    """

    hits: tuple[FoundTool, ...]
    query: str
    effective: SearchType
    total_deferred: int
    confidence: str
    usage: str | None
    note: str | None
    evidence: float


def search_json(answer: SearchAnswer) -> JsonObject:
    """Return the structured answer of ``tool_search``."""
    said = {"usage": answer.usage, "note": answer.note}
    return {
        "tools": [_found(hit) for hit in answer.hits],
        "query": answer.query,
        "search_type": answer.effective.value,
        "total_deferred": answer.total_deferred,
        "confidence": answer.confidence,
        **{key: text for key, text in said.items() if text},
    }


def usage(hits: Sequence[FoundTool], *, split: bool, listed: bool) -> str | None:
    """Return how to call the hits; None if no hit can be called now.

    Names that some hosts use too are marked as toolcrib's. ``split``: read-only tools have a call tool of their own.
    ``listed``: called tools are added to the client's list.
    """
    reading = [hit.tool.read_only for hit in hits if hit.status not in DOWN]
    if not reading:
        return None
    if not split or not any(reading):
        door = "toolcrib's tool_call"
    elif all(reading):
        door = "toolcrib's tool_call_read"
    else:
        door = "toolcrib's tool_call_read if marked read, else tool_call"
    return f"Call one now by name with {door}{'; a used tool is listed too' if listed else ''}."


class Briefs:
    """Reads the brief form of tools, by row; deleted rows are omitted.

    The result is cached for the life of its wording: searches find the same tools repeatedly.
    """

    def __init__(self) -> None:
        self._briefs = RecentBy[Wording, int, Shown](_BRIEFS_MAX)

    def of(self, wording: Wording, rows: Sequence[int]) -> Mapping[int, Shown]:
        """Return signatures, and about the first sentence of descriptions, without hidden characters."""
        briefs = self._briefs[wording]
        known: dict[int, Shown] = {}
        for row in rows:
            with suppress(KeyError):
                known[row] = briefs[row]
        unread = [row for row in rows if row not in known]
        if not unread:
            return known
        read = {row: _brief(card) for row, card in wording.cards(unread).items()}
        for row, shown in read.items():
            briefs[row] = shown
        return {**known, **read}


def whole(wording: Wording, rows: Sequence[int]) -> Mapping[int, Shown]:
    """Return input schemas, examples, and longer descriptions, without hidden characters, by row."""
    read = wording.described(rows) if rows else {}
    return {row: _whole(card, definition) for row, (definition, card) in read.items()}


def found_tools(
    found: Found[Tool],
    shown: Mapping[int, Shown],
    activated: Collection[str],
    owners: Mapping[int, str],
    status_of: Callable[[Tool], str | None],
) -> tuple[FoundTool, ...]:
    """Return the hits with their shown parts: in a brief answer, only the first has an example."""
    matches = [match for match in found.matches if match.document.row in shown]
    return tuple(
        FoundTool(
            match.document,
            shown[match.document.row] if match is matches[0] else _without_brief_example(shown[match.document.row]),
            match.score,
            match.match_type.value,
            activated=match.document.public_name in activated,
            status=status_of(match.document),
            owner=owners.get(match.document.row),
        )
        for match in matches
    )


def _without_brief_example(shown: Shown) -> Shown:
    return replace(shown, examples=()) if shown.signature and shown.examples else shown


def _brief(card: Card) -> Shown:
    summary, _rest = split_summary(card.description)
    example = shortest(card.examples)
    is_short = example is not None and len(compact(example.args)) <= _EXAMPLE_MAX
    examples = (replace(example, description=""),) if example and is_short else ()
    return Shown(truncate(one_line(summary), _SHORT_MAX), card.signature, examples=examples)


def _whole(card: Card, definition: JsonObject) -> Shown:
    description = truncate(one_line(card.description), _LONG_MAX)
    return Shown(description, input_schema=definition["inputSchema"], examples=card.examples)


def _found(hit: FoundTool) -> JsonObject:
    """Return one hit, without empty members."""
    tool = hit.tool
    shown: dict[str, Any] = {
        "name": tool.public_name,
        "description": hit.shown.description,
        "score": hit.score,
        "match_type": hit.match_type,
        "loading_mode": tool.loading_mode.value,
        # A name that begins with its server need not repeat it: five hits have to fit into 500 tokens.
        "server": None if tool.public_name.startswith(f"{tool.server}__") else tool.server,
        "side_effects": tool.side_effects.value if tool.side_effects else None,
        "activated": hit.activated or None,
        "signature": hit.shown.signature,
        "input_schema": hit.shown.input_schema,
        "examples": [_example(each) for each in hit.shown.examples] or None,
        "status": hit.status,
        "owner": hit.owner,
    }
    return {key: value for key, value in shown.items() if value is not None}


def _example(example: Example) -> JsonObject:
    return {"args": dict(example.args), **({"description": example.description} if example.description else {})}
