"""What the use cases of tools answer: plain values, what they show of a tool, and the same as JSON for programs.

Knows the fields of an answer and how long its texts are; never knows how anything was found, nor the protocol.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from toolcrib.base.json_values import compact
from toolcrib.base.recent import RecentBy
from toolcrib.base.text import one_line, split_summary, truncate
from toolcrib.downstream.states import DOWN
from toolcrib.model import Example, JsonObject, SearchType, Tool
from toolcrib.search.matches import Found
from toolcrib.tools.definitions.examples import shortest
from toolcrib.tools.index.rows import Card
from toolcrib.tools.wording import Wording

_SHORT_MAX, _LONG_MAX = 100, 600
"""Characters of a description."""
_EXAMPLE_MAX = 120
"""Characters of an example that is shown in brief."""
_BRIEFS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown of a tool's definition: its signature and a short example, or its schema and all examples."""

    description: str
    signature: str | None = None
    input_schema: JsonObject | None = None
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundTool:
    """One hit of a search, as much of the tool as was asked for.

    ``score`` is in [0, 1] and comparable inside one answer only; ``status`` is a state of its server that matters.
    ``owner`` is the skill by which it is there, where it is scoped to skills.
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
    """What ``tool_search`` answers. ``usage`` says how to call what was found, ``note`` why there is not more.

    ``evidence`` is what ``confidence`` comes from, comparable between queries.
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
    """Return the answer of ``tool_search`` as programs get it."""
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
    """Return how to call what was found; None where nothing was that can be called now.

    Names that some hosts have too are said to be toolcrib's. ``split``: what only reads has a tool of its own.
    ``listed``: what was called is in the client's list from then on.
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
    """Reads what is shown of tools in brief, by row; a row that is gone is left out.

    It is remembered for as long as its wording stands: searches find the same tools again and again.
    """

    def __init__(self) -> None:
        self._briefs = RecentBy[Wording, int, Shown](_BRIEFS_MAX)

    def of(self, wording: Wording, rows: Sequence[int]) -> Mapping[int, Shown]:
        """Return signatures, and of descriptions the first sentence or so, without hidden characters."""
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
    """Return input schemas, examples, and more of the descriptions, without hidden characters, by row."""
    read = wording.described(rows) if rows else {}
    return {row: _whole(card, definition) for row, (definition, card) in read.items()}


def found_tools(
    found: Found[Tool],
    shown: Mapping[int, Shown],
    activated: Collection[str],
    owners: Mapping[int, str],
    status_of: Callable[[Tool], str | None],
) -> tuple[FoundTool, ...]:
    """Return what was found with what is shown of it: an example in brief with the first only."""
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
    """Return one hit, without what there is nothing to tell of."""
    tool = hit.tool
    shown: dict[str, Any] = {
        "name": tool.public_name,
        "description": hit.shown.description,
        "score": hit.score,
        "match_type": hit.match_type,
        "loading_mode": tool.loading_mode.value,
        # A name that begins with its server need not say it twice: five hits have to fit into 500 tokens.
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
