"""The built-in tools that find and call tools of servers: what a model reads of each, its arguments, its answer."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import Field, Strict

from toolcrib.base.errors import BadRequest
from toolcrib.base.json_values import compact
from toolcrib.base.model import READ_MORE, JsonObject, LoadingMode
from toolcrib.base.text import enumerated, one_line
from toolcrib.catalog.arguments import unwrap_arguments
from toolcrib.catalog.definitions import render
from toolcrib.catalog.tool_search import FoundTool, SearchAnswer, SearchRequest, search_json, without_returns
from toolcrib.gateway.composition import Generation
from toolcrib.gateway.offers import OfferUseCases
from toolcrib.gateway.results import LongResults
from toolcrib.gateway.tools import ToolUseCases
from toolcrib.policy.requests import Request
from toolcrib.policy.sessions import Session
from toolcrib.search.confidence import explained
from toolcrib.server.builtin.programs import RunProgram
from toolcrib.server.builtin.tool import (
    ALWAYS_LOAD,
    CONFIDENCE,
    COUNT,
    FLAG,
    READ_ONLY,
    SCORE,
    SEARCH_TYPE,
    SEARCH_TYPES,
    TEXT,
    Answer,
    Arguments,
    BuiltinTool,
    SearchTypeName,
    described,
    list_of,
    object_of,
    read_as_meant,
)

_LIMIT_MAX = 20
_OFFERS_HEAD = "Besides tools, not to be called: read a resource by its URI, get a prompt by its name."
_NAMES_ROOM = 100
"""Maximum length of the list of server names: some hosts cut descriptions at 150 characters, and every prompt pays for
them.
"""


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
                    "returns": TEXT,
                    "examples": list_of({"type": "object"}),
                    "status": {"type": "string", "enum": ["starting", "failed", "needs_login"]},
                    "owner": TEXT,
                    "import_name": TEXT,
                },
                ["name", "description", "score", "match_type", "loading_mode"],
            )
        ),
        "offers": list_of(
            object_of(
                {
                    "kind": {"type": "string", "enum": ["resource", "resource_template", "prompt"]},
                    "address": TEXT,
                    "description": TEXT,
                    "server": TEXT,
                    "score": SCORE,
                    "match_type": {"type": "string", "enum": ["exact", "regex", "fts"]},
                },
                ["kind", "address", "description", "server", "score", "match_type"],
            )
        ),
        "query": TEXT,
        "search_type": SEARCH_TYPE,
        "total_deferred": COUNT,
        "confidence": CONFIDENCE,
        "usage": TEXT,
        "note": TEXT,
        "servers": list_of(object_of({"server": TEXT, "says": TEXT}, ["server", "says"])),
    },
    ["tools", "query", "search_type"],
)


class SearchTools(BuiltinTool[SearchArguments]):
    """Finds downstream tools. ``max_results`` is the maximum of ``limit``."""

    name: ClassVar[str] = "tool_search"
    answer_schema: ClassVar[JsonObject | None] = _ANSWER
    arguments = SearchArguments

    def __init__(
        self, tool_use_cases: ToolUseCases, offers: OfferUseCases, max_results: int, *, split: bool, runs_programs: bool
    ) -> None:
        self._tool_use_cases, self._offers, self._max_results = tool_use_cases, offers, max_results
        self._runs_programs = runs_programs
        self._limit_max = max(_LIMIT_MAX, max_results)
        self.definition = _definition(self._limit_max, "tool_call_read or tool_call" if split else "tool_call")

    @classmethod
    def offered_by(cls, generation: Generation) -> Self | None:
        """Return the tool unless all tools are listed, or the config disables it."""
        section = generation.settings.toolcrib
        if not (section.tool_search.enabled and section.tool_search.include_search_tool):
            return None
        is_split = section.gate.call_tools == "split"
        runs, most = RunProgram.is_offered_by(generation), section.tool_search.max_search_results
        return cls(generation.tools, generation.offers, most, split=is_split, runs_programs=runs)

    def shown_to(self, session: Session) -> JsonObject:
        """Return the definition, whose first sentence names the servers available to the session's caller."""
        servers = enumerated(self._tool_use_cases.gate.servers(session), _NAMES_ROOM)
        start = f"Find tools of toolcrib's MCP servers{f': {servers}' if servers else ''}. "
        return {**self.definition, "description": start + self.definition["description"]}

    async def run(self, request: Request, given: SearchArguments) -> Answer:
        """Search, and return the matches.

        Raises:
            BadRequest: a blank query, a limit out of range, or a pattern that cannot be used.

        """
        # The config sets the maximum, so the model of the arguments, which is one for all, cannot state it.
        if given.limit > self._limit_max:
            raise BadRequest(f"limit: must be from 1 to {self._limit_max}")
        wanted = SearchRequest(
            given.query.strip(),
            SEARCH_TYPES[given.search_type],
            min(given.limit, self._max_results),
            include_always=given.include_always_loaded,
            server=given.server,
        )
        answer = await self._tool_use_cases.search_tools(request.session, wanted, given.detail)
        imports: Mapping[str, str] = {}
        if self._runs_programs:
            imports = await self._tool_use_cases.imports_of(request.session, answer)
        else:
            answer = without_returns(answer)
        offers = await self._offers.search(request.session, wanted, given.server) if self._offers.searchable else []
        if not offers:
            return Answer(answer_text(answer, imports), _with_imports(search_json(answer), imports))
        lines = [answer_text(answer, imports), _OFFERS_HEAD, *(each.as_text for each in offers)]
        structured = _with_imports(search_json(answer), imports)
        return Answer("\n".join(lines), {**structured, "offers": [each.as_json for each in offers]})


def _with_imports(answer: JsonObject, imports: Mapping[str, str]) -> JsonObject:
    """Return a structured answer with the names in imports of programs, where they are not those of the tools."""
    if not imports:
        return answer
    tools = [{**hit, "import_name": imports[hit["name"]]} if hit["name"] in imports else hit for hit in answer["tools"]]
    return {**answer, "tools": tools}


def answer_text(answer: SearchAnswer, imports: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the answer as lines: the matches, how to call them, why there are no more. Self-contained for a model.

    ``imports`` are the names of tools in imports of programs, by public name, where those differ.
    """
    count = "1 tool" if len(answer.hits) == 1 else f"{len(answer.hits)} tools"
    confidence = f", {explained(answer.confidence)}." if answer.hits else "."
    head = count + confidence
    said = (each.as_line for each in answer.introductions)
    return "\n".join(
        [head, *(_found_text(hit, imports) for hit in answer.hits), *filter(None, (answer.usage, answer.note)), *said]
    )


def _found_text(hit: FoundTool, imports: Mapping[str, str]) -> str:
    effects = hit.tool.side_effects
    listed = "always listed" if hit.tool.loading_mode is LoadingMode.ALWAYS else None
    owner = f"by skill {one_line(hit.owner)}" if hit.owner else None
    name = imports.get(hit.tool.public_name)
    imported = f"in programs {name}" if name else None
    activated = "activated" if hit.activated else None
    marks = (effects.value if effects else None, listed, owner, activated, imported, hit.status)
    marked = ", ".join(filter(None, marks))
    parts = (hit.shown.as_line(hit.tool.public_name), f"[{marked}]" if marked else "", hit.shown.description)
    line = f"- {' '.join(filter(None, parts))}"
    if hit.shown.input_schema is not None:
        line += f"\n  schema: {compact(hit.shown.input_schema)}"
    return f"{line}\n{render(hit.shown.examples, include_descriptions=True)}" if hit.shown.examples else line


def _definition(limit_max: int, doors: str) -> JsonObject:
    return {
        "title": "Find tools",
        "description": (
            f"Call a hit with toolcrib's {doors}, listed or not. "
            "One capability a query; several queries, one a line. "
            "Order and confidence decide, not scores.\n"
            "Examples:\n"
            '- args: {"query":"create issue"}\n'
            '- args: {"query":"list_.*file","search_type":"regex"}'
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": described("string", "What the tool should do; or a regex or name"),
                "search_type": {
                    **described("string", "fts: words; regex: RE2; exact: a name"),
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
                    **described("string", "schema: input schemas"),
                    "enum": ["signature", "schema"],
                    "default": "signature",
                },
                "server": described("string", "Only this server"),
            },
            "required": ["query"],
        },
        **READ_ONLY,
    }


class ReadMoreArguments(Arguments):
    """The arguments of ``read_more``."""

    handle: Annotated[str, Strict()]
    page: Annotated[int, Strict()] | None = None
    find: Annotated[str, Strict()] = ""
    path: Annotated[str, Strict()] = ""


_DEFINITION: JsonObject = {
    "title": "Read the rest of a result",
    "description": (
        "Read on in a result that was cut: the next page, lines with words, or a JSON path.\n"
        "Examples:\n"
        '- args: {"handle":"as given","page":2}\n'
        '- args: {"handle":"as given","path":"$.items[0].id"}'
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "handle": TEXT,
            "page": COUNT,
            "find": TEXT,
            "path": TEXT,
        },
        "required": ["handle"],
    },
    **READ_ONLY,
}


class ReadMore(BuiltinTool[ReadMoreArguments]):
    """Reads the pages of a result after the first; listed only in sessions for which a result was kept (ADR 25)."""

    name: ClassVar[str] = READ_MORE
    arguments = ReadMoreArguments
    definition = _DEFINITION

    def __init__(self, long_results: LongResults) -> None:
        self._long_results = long_results

    def shown_to(self, session: Session) -> JsonObject | None:
        """Return the definition if the session has pages to read."""
        return self.definition if session.reads_more else None

    @classmethod
    def offered_by(cls, generation: Generation) -> Self:
        """Return the tool regardless of the config: any result may be too large."""
        return cls(generation.tools.long_results)

    async def run(self, request: Request, given: ReadMoreArguments) -> JsonObject:
        """Return the page that the arguments request, or what they look for.

        Raises:
            BadRequest: no valid handle, or nothing can be looked for like that.

        """
        words, path = given.find.strip(), given.path.strip()
        if (given.page is not None) + bool(words) + bool(path) > 1:
            raise BadRequest("Give one of 'page', 'find' and 'path'.")
        if words or path:
            return await self._long_results.found(request.session, given.handle, words=words, path=path)
        return await self._long_results.page(request.session, given.handle, given.page)


class CallArguments(Arguments):
    """The arguments of ``tool_call`` and ``tool_call_read``; ``arguments`` is forgiven its shape later on."""

    name: Annotated[str, Strict()]
    arguments: Any = None


class _Door(BuiltinTool[CallArguments]):
    """A tool that calls another: one of a server, or ``read_more``, which a constant list does not include (ADR 25)."""

    arguments = CallArguments
    read_only: ClassVar[bool]

    def __init__(self, tool_use_cases: ToolUseCases, *, runs_programs: bool) -> None:
        self._tool_use_cases, self._runs_programs = tool_use_cases, runs_programs
        self._read_more = ReadMore(tool_use_cases.long_results)

    async def run(self, request: Request, given: CallArguments) -> JsonObject:
        """Call the tool that the arguments name."""
        # A constant list never shows it, so the notice of a page names this tool instead (ADR 25).
        if given.name == READ_MORE:
            schema = self._read_more.definition["inputSchema"]
            wanted = read_as_meant(ReadMoreArguments, unwrap_arguments(given.arguments, schema) or {})
            return await self._read_more.run(request, wanted)
        result = await self._tool_use_cases.call_any(request, given.name, given.arguments, read_only=self.read_only)
        if self._runs_programs and request.session.history.in_a_row(given.name) == _EQUAL_CALLS:
            return _naming_programs(result)
        return result


_EQUAL_CALLS = 3
"""Calls of one tool in a row after which the next ones are better made by a program."""


def _naming_programs(result: JsonObject) -> JsonObject:
    """Return a result with a line about programs behind it; not beside structured content, which is shown alone."""
    content = result.get("content")
    if "structuredContent" in result or not isinstance(content, list):
        return result
    line = f"[toolcrib: {RunProgram.name} makes them all at once: many calls like this one, in a few lines of Python.]"
    return {**result, "content": [*cast("list[Any]", content), {"type": "text", "text": line}]}


class CallTool(_Door):
    """Calls any permitted tool."""

    name: ClassVar[str] = "tool_call"
    read_only = False

    def __init__(self, tool_use_cases: ToolUseCases, *, searchable: bool, runs_programs: bool) -> None:
        super().__init__(tool_use_cases, runs_programs=runs_programs)
        which = "tool that toolcrib's tool_search finds" if searchable else "tool of toolcrib's servers"
        self.definition = {
            "title": "Call a tool",
            "description": (
                f"Call any {which}.\n"
                'Examples:\n- args: {"name":"time__get_current_time","arguments":{"timezone":"UTC"}}'
            ),
            "inputSchema": _input_schema(),
            # The hints of the worst tool that it may call: clients decide by them whether to ask a person.
            "annotations": {"destructiveHint": True, "openWorldHint": True},
            "execution": {"taskSupport": "optional"},
            **ALWAYS_LOAD,
        }

    @classmethod
    def offered_by(cls, generation: Generation) -> Self | None:
        """Return the tool unless all tools are listed."""
        section = generation.settings.toolcrib.tool_search
        if not section.enabled:
            return None
        runs = RunProgram.is_offered_by(generation)
        return cls(generation.tools, searchable=section.include_search_tool, runs_programs=runs)


class CallReadOnly(_Door):
    """Calls permitted tools that their servers declare read-only."""

    name: ClassVar[str] = "tool_call_read"
    read_only = True

    def __init__(self, tool_use_cases: ToolUseCases, *, runs_programs: bool) -> None:
        super().__init__(tool_use_cases, runs_programs=runs_programs)
        self.definition = {
            "title": "Call a read-only tool",
            "description": "Call a tool that its server declares read-only; refuses others.",
            "inputSchema": _input_schema(),
            # A client may run it without asking, because it refuses what is not declared read-only.
            "annotations": {"readOnlyHint": True, "openWorldHint": True},
            **ALWAYS_LOAD,
        }

    @classmethod
    def offered_by(cls, generation: Generation) -> Self | None:
        """Return the tool if read-only calls are separated."""
        section = generation.settings.toolcrib
        if not section.tool_search.enabled or section.gate.call_tools != "split":
            return None
        return cls(generation.tools, runs_programs=RunProgram.is_offered_by(generation))


def _input_schema() -> JsonObject:
    return {
        "type": "object",
        "properties": {
            "name": described("string", "Its name"),
            "arguments": {**described("object", "Its arguments"), "default": {}},
        },
        "required": ["name"],
    }
