"""``tool_search``: what a model reads of it, its arguments, and its answer.

Knows the words that a model reads; never knows how tools are found.
"""

import json
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, Strict

from toolcrib.access.sessions import Session
from toolcrib.base.json_values import compact
from toolcrib.errors import BadRequest
from toolcrib.model import JsonObject
from toolcrib.tools.answers import FoundTool, SearchAnswer, search_json
from toolcrib.tools.definitions.examples import render
from toolcrib.tools.search import SearchRequest
from toolcrib.tools.use_cases import ToolUseCases
from toolcrib.wire.builtin.schemas import (
    CONFIDENCE,
    COUNT,
    FLAG,
    SCORE,
    SEARCH_TYPE,
    TEXT,
    described,
    list_of,
    object_of,
)
from toolcrib.wire.builtin.tool import (
    READ_ONLY,
    SEARCH_TYPES,
    Answer,
    Arguments,
    BuiltinParts,
    BuiltinTool,
    CallMaker,
    SearchTypeName,
)

_LIMIT_MAX = 20


class SearchArguments(Arguments):
    """The arguments of ``tool_search``."""

    query: Annotated[str, Strict()]
    search_type: SearchTypeName = "fts"
    limit: Annotated[int, Strict(), Field(ge=1)] = 8
    include_always_loaded: Annotated[bool, Strict()] = False
    detail: Literal["signature", "schema"] = "signature"
    server: Annotated[str, Strict()] | None = None


_ANSWER = object_of(
    {
        "tools": list_of(
            object_of(
                {
                    "name": TEXT,
                    "description": TEXT,
                    "score": SCORE,
                    "match_type": {"type": "string", "enum": ["exact", "regex", "fts"]},
                    "loading_mode": {"type": "string", "enum": ["always", "deferred", "skill"]},
                    "server": TEXT,
                    "side_effects": {"type": "string", "enum": ["pure", "read", "write", "external", "stateful"]},
                    "activated": FLAG,
                    "signature": TEXT,
                    "input_schema": {"type": "object"},
                    "examples": list_of({"type": "object"}),
                    "status": {"type": "string", "enum": ["starting", "failed"]},
                },
                ["name", "description", "score", "match_type", "loading_mode"],
            )
        ),
        "query": TEXT,
        "search_type": SEARCH_TYPE,
        "total_deferred": COUNT,
        "confidence": CONFIDENCE,
        "usage": TEXT,
        "note": TEXT,
    },
    ["tools", "query", "search_type"],
)


class SearchTools(BuiltinTool[SearchArguments]):
    """Finds downstream tools. ``max_results`` bounds an answer, whatever ``limit`` asks for."""

    name: ClassVar[str] = "tool_search"
    answer_schema: ClassVar[JsonObject | None] = _ANSWER
    arguments = SearchArguments

    def __init__(self, tool_use_cases: ToolUseCases, max_results: int) -> None:
        self._tool_use_cases, self._max_results = tool_use_cases, max_results
        self._limit_max = max(_LIMIT_MAX, max_results)
        self.definition = _definition(self._limit_max)

    @classmethod
    def offered_by(cls, parts: BuiltinParts) -> Self | None:
        """Return the tool unless all tools are listed, or the config leaves it out."""
        section = parts.settings.toolcrib.tool_search
        offered = section.enabled and section.include_search_tool
        return cls(parts.tool_use_cases, section.max_search_results) if offered else None

    async def run(self, session: Session, given: SearchArguments, _call: CallMaker) -> Answer:
        """Search, and tell what was found.

        Raises:
            BadRequest: a blank query, a limit out of range, or a pattern that cannot be used.

        """
        if given.limit > self._limit_max:
            raise BadRequest(f"limit: must be from 1 to {self._limit_max}")
        request = SearchRequest(
            given.query.strip(),
            SEARCH_TYPES[given.search_type],
            min(given.limit, self._max_results),
            include_always=given.include_always_loaded,
            server=given.server,
        )
        answer = await self._tool_use_cases.search_tools(session, request, given.detail)
        return Answer(answer_text(answer), search_json(answer))


def answer_text(answer: SearchAnswer) -> str:
    """Return the answer as lines: what was found, how to call it, and why there is not more."""
    head = (
        f"{len(answer.hits)} tools for {json.dumps(answer.query, ensure_ascii=False)} "
        f"({answer.effective.value}, confidence {answer.confidence}, {answer.total_deferred} deferred in all)"
    )
    return "\n".join([head, *map(_found_text, answer.hits), *filter(None, (answer.usage, answer.note))])


def _found_text(hit: FoundTool) -> str:
    effects = hit.tool.side_effects
    facts = [f"{hit.score:.2f} {hit.match_type}", hit.tool.loading_mode.value]
    facts += [fact for fact in (effects.value if effects else None, hit.status) if fact]
    if hit.activated:
        facts.append("activated")
    line = f"- {hit.shown.signature or hit.tool.public_name} [{', '.join(facts)}] {hit.shown.description}"
    if hit.shown.input_schema is not None:
        line += f"\n  schema: {compact(hit.shown.input_schema)}"
    return f"{line}\n{render(hit.shown.examples, include_descriptions=True)}" if hit.shown.examples else line


def _definition(limit_max: int) -> JsonObject:
    return {
        "title": "Find tools",
        "description": (
            "Search the tools of all MCP servers, most of which are not listed. "
            "One capability per query; for a task several short queries, each on its own line. "
            "Returns names, signatures and how to call them.\n"
            "Examples:\n"
            '- args: {"query":"create github issue"}\n'
            '- args: {"query":"(list|search)_.*file","search_type":"regex"}\n'
            '- args: {"query":"github__create_issue","search_type":"exact","detail":"schema"}'
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": described("string", "What the tool should do, in a few words; or a regex or name"),
                "search_type": {
                    **described("string", "fts: words; regex: RE2 over names and texts; exact: a name"),
                    "enum": ["fts", "regex", "exact"],
                    "default": "fts",
                },
                "limit": {
                    **described("integer", "Most results"),
                    "minimum": 1,
                    "maximum": limit_max,
                    "default": 8,
                },
                "include_always_loaded": {
                    **described("boolean", "Also always listed tools"),
                    "default": False,
                },
                "detail": {
                    **described("string", "schema: whole input schemas"),
                    "enum": ["signature", "schema"],
                    "default": "signature",
                },
                "server": described("string", "Only this server"),
            },
            "required": ["query"],
        },
        **READ_ONLY,
    }
