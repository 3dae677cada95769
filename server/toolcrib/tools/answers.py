"""What the use cases of tools answer: plain values, and the same as JSON for programs.

Knows the fields of an answer and how long its texts are; never knows how anything was found, nor the protocol.
"""

from dataclasses import dataclass
from typing import Any

from toolcrib.base.text import one_line, split_summary, truncate
from toolcrib.model import Example, JsonObject, SearchType, Tool
from toolcrib.tools.index.rows import Card

_SIGNATURE_DESCRIPTION = 100
_SCHEMA_DESCRIPTION = 600


@dataclass(frozen=True, slots=True)
class FoundTool:
    """One hit of a search, as much of the tool as was asked for.

    ``score`` is in [0, 1] and comparable inside one answer only; ``status`` is a state of its server that matters.
    """

    tool: Tool
    score: float
    match_type: str
    description: str
    activated: bool
    signature: str | None = None
    input_schema: JsonObject | None = None
    examples: tuple[Example, ...] = ()
    status: str | None = None


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


def usage(*, growing: bool) -> str:
    """Return how to call what was found; a list that is ``growing`` shows what was called."""
    return "Call one now with tool_call" + ("; a used tool is listed too." if growing else ".")


def short_description(card: Card) -> str:
    """Return the first sentence or so, at most 100 characters, without hidden characters."""
    summary, _rest = split_summary(card.description)
    return truncate(one_line(summary), _SIGNATURE_DESCRIPTION)


def long_description(card: Card) -> str:
    """Return the description, at most 600 characters, without hidden characters."""
    return truncate(one_line(card.description), _SCHEMA_DESCRIPTION)


def _found(hit: FoundTool) -> JsonObject:
    """Return one hit, without what there is nothing to tell of."""
    tool = hit.tool
    shown: dict[str, Any] = {
        "name": tool.public_name,
        "description": hit.description,
        "score": hit.score,
        "match_type": hit.match_type,
        "loading_mode": tool.loading_mode.value,
        # A name that begins with its server need not say it twice: five hits have to fit into 500 tokens.
        "server": None if tool.public_name.startswith(f"{tool.server}__") else tool.server,
        "side_effects": tool.side_effects.value if tool.side_effects else None,
        "activated": hit.activated or None,
        "signature": hit.signature,
        "input_schema": hit.input_schema,
        "examples": [_example(each) for each in hit.examples] or None,
        "status": hit.status,
    }
    return {key: value for key, value in shown.items() if value is not None}


def _example(example: Example) -> JsonObject:
    return {"args": dict(example.args), **({"description": example.description} if example.description else {})}
