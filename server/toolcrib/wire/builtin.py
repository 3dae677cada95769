"""Our own tools as a client sees them: definitions, argument checks, and answers as text and structured content.

Knows the words that a model reads; never knows how anything is found or called.
"""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict

from toolcrib.base.json_values import compact
from toolcrib.config.settings import Settings
from toolcrib.errors import BadRequest
from toolcrib.model import JsonObject
from toolcrib.tools.answers import FoundTool, SearchAnswer, search_json
from toolcrib.tools.definitions.examples import render
from toolcrib.tools.search import SearchRequest
from toolcrib.wire.checking import SearchTypeName, checked, described, search_type_of

TOOL_SEARCH, TOOL_CALL, TOOL_CALL_READ = "tool_search", "tool_call", "tool_call_read"
_ALWAYS_LOAD = {"anthropic/alwaysLoad": True}
_LIMIT_MAX = 20

INSTRUCTIONS = """\
<tool_discovery>
Many more tools are available than are listed. When a task needs one you do not see, search before you give up:
1. tool_search with one capability per query, e.g. "create issue"; for a task of several steps search several times.
2. Call what you found at once with tool_call, by its name, with arguments that fit its signature. \
Ask with detail "schema" if the signature is not enough.
If nothing fits, say so; do not guess names.
</tool_discovery>"""
"""What the server tells a model on connecting (R27, R126)."""


class SearchArguments(BaseModel):
    """The arguments of ``tool_search``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    query: Annotated[str, Strict()]
    search_type: SearchTypeName = "fts"
    limit: Annotated[int, Strict(), Field(ge=1)] = 8
    include_always_loaded: Annotated[bool, Strict()] = False
    detail: Literal["signature", "schema"] = "signature"
    server: Annotated[str, Strict()] | None = None


class CallArguments(BaseModel):
    """The arguments of ``tool_call`` and ``tool_call_read``; ``arguments`` is forgiven its shape later on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Strict()]
    arguments: Any = None


class Builtins:
    """The built-in tools of one configuration, in the order in which they are listed."""

    def __init__(self, settings: Settings) -> None:
        section = settings.toolcrib.tool_search
        self._max_results = section.max_search_results
        self._limit_max = max(_LIMIT_MAX, section.max_search_results)
        self.definitions: list[JsonObject] = []
        if section.enabled:
            if section.include_search_tool:
                self.definitions.append(self._tool_search())
            self.definitions.append(_tool_call())
            if settings.toolcrib.gate.call_tools == "split":
                self.definitions.append(_tool_call_read())
        self.names = frozenset(definition["name"] for definition in self.definitions)
        self.guidance = INSTRUCTIONS if TOOL_SEARCH in self.names and settings.servers else ""

    def search_request(self, arguments: JsonObject) -> tuple[SearchRequest, Literal["signature", "schema"]]:
        """Check the arguments of ``tool_search``.

        Raises:
            BadRequest: they do not fit; the text names each field.

        """
        given = checked(SearchArguments, arguments)
        if given.limit > self._limit_max:
            raise BadRequest(f"limit: must be from 1 to {self._limit_max}")
        request = SearchRequest(
            given.query.strip(),
            search_type_of(given.search_type),
            min(given.limit, self._max_results),
            include_always=given.include_always_loaded,
            server=given.server,
        )
        return request, given.detail

    def call_arguments(self, arguments: JsonObject) -> CallArguments:
        """Check the arguments of ``tool_call``.

        Raises:
            BadRequest: they do not fit; the text names each field.

        """
        return checked(CallArguments, arguments)

    def _tool_search(self) -> JsonObject:
        return {
            "name": TOOL_SEARCH,
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
                        "maximum": self._limit_max,
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
            "outputSchema": _SEARCH_OUTPUT,
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
            "_meta": dict(_ALWAYS_LOAD),
        }


def _tool_call() -> JsonObject:
    return {
        "name": TOOL_CALL,
        "title": "Call a tool",
        "description": (
            "Call a tool by name, listed or not; find names and signatures with tool_search.\n"
            "Examples:\n"
            '- args: {"name":"time__get_current_time","arguments":{"timezone":"UTC"}}'
        ),
        "inputSchema": _call_schema(),
        "annotations": {"destructiveHint": True, "openWorldHint": True},
        "_meta": dict(_ALWAYS_LOAD),
    }


def _tool_call_read() -> JsonObject:
    return {
        "name": TOOL_CALL_READ,
        "title": "Call a read-only tool",
        "description": (
            "Call a tool that its server declares read-only; refuses others.\n"
            "Examples:\n"
            '- args: {"name":"time__get_current_time","arguments":{"timezone":"UTC"}}'
        ),
        "inputSchema": _call_schema(),
        "annotations": {"readOnlyHint": True, "openWorldHint": True},
        "_meta": dict(_ALWAYS_LOAD),
    }


def _call_schema() -> JsonObject:
    return {
        "type": "object",
        "properties": {
            "name": described("string", "Name from tool_search"),
            "arguments": {**described("object", "The tool's arguments"), "default": {}},
        },
        "required": ["name"],
    }


_SEARCH_OUTPUT: JsonObject = {
    "type": "object",
    "properties": {
        "tools": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "description": {"type": "string"},
                    "score": {"type": "number", "minimum": 0, "maximum": 1},
                    "match_type": {"type": "string", "enum": ["exact", "regex", "fts"]},
                    "loading_mode": {"type": "string", "enum": ["always", "deferred", "skill"]},
                    "server": {"type": "string"},
                    "side_effects": {
                        "type": "string",
                        "enum": ["pure", "read", "write", "external", "stateful"],
                    },
                    "activated": {"type": "boolean"},
                    "signature": {"type": "string"},
                    "input_schema": {"type": "object"},
                    "examples": {"type": "array", "items": {"type": "object"}},
                    "status": {"type": "string", "enum": ["starting", "failed"]},
                },
                "required": ["name", "description", "score", "match_type", "loading_mode"],
            },
        },
        "query": {"type": "string"},
        "search_type": {"type": "string", "enum": ["fts", "regex", "exact"]},
        "total_deferred": {"type": "integer"},
        "confidence": {"type": "string", "enum": ["high", "low", "none"]},
        "usage": {"type": "string"},
        "note": {"type": "string"},
    },
    "required": ["tools", "query", "search_type"],
}


def search_result(answer: SearchAnswer) -> JsonObject:
    """Return the result of ``tool_search``: structured, and the same as text for hosts that show only text."""
    return {
        "content": [{"type": "text", "text": _search_text(answer)}],
        "structuredContent": search_json(answer),
        "isError": False,
    }


def _search_text(answer: SearchAnswer) -> str:
    """Return the answer as lines: what was found, how to call it, and why there is not more."""
    head = (
        f"{len(answer.hits)} tools for {json.dumps(answer.query, ensure_ascii=False)} "
        f"({answer.effective.value}, confidence {answer.confidence}, {answer.total_deferred} deferred in all)"
    )
    return "\n".join([head, *map(_hit_text, answer.hits), *filter(None, (answer.usage, answer.note))])


def _hit_text(hit: FoundTool) -> str:
    effects = hit.tool.side_effects
    facts = [f"{hit.score:.2f} {hit.match_type}", hit.tool.loading_mode.value]
    facts += [fact for fact in (effects.value if effects else None, hit.status) if fact]
    if hit.activated:
        facts.append("activated")
    line = f"- {hit.signature or hit.tool.public_name} [{', '.join(facts)}] {hit.description}"
    if hit.input_schema is not None:
        line += f"\n  schema: {compact(hit.input_schema)}"
    block = render(hit.examples, include_descriptions=True) if hit.examples else ""
    return f"{line}\n{block}" if block else line
