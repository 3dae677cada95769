"""``toolcrib search``, ``call`` and ``tools``: a person does what an agent would do, under the same policy."""

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from toolcrib.base.errors import BadRequest, ToolcribError, UnknownTool
from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject, LoadingMode, SearchType, Tool
from toolcrib.base.text import one_line, split_summary, truncate
from toolcrib.cli.call_arguments import HELP, parse_arguments
from toolcrib.cli.completion import ServerOption, tool_names
from toolcrib.cli.in_process import for_tool, with_index, with_tools
from toolcrib.cli.output import (
    ConfigOption,
    JsonOption,
    LimitOption,
    RowsOption,
    SearchTypeOption,
    fail_if,
    print_answer,
    print_json,
    print_lines,
    print_text,
    print_verbatim,
    table,
)
from toolcrib.cli.screen import Column, Role
from toolcrib.cli.waiting import WaitingLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolcrib.catalog.tool_search import FoundTool, SearchAnswer
    from toolcrib.cli.in_process import Indexed
    from toolcrib.gateway.tools import ToolUseCases
    from toolcrib.policy.sessions import Session

_DESCRIPTION = 100
_NAMED_MAX = 10

ToolArgument = Annotated[str, typer.Argument(help="The tool's name, as search shows it.", autocompletion=tool_names)]
commands = typer.Typer(help="List and show the tools that an agent can use.", no_args_is_help=True)


def search(
    query: Annotated[str, typer.Argument(help="What the tool should do; or a pattern, or a name.")],
    kind: SearchTypeOption = SearchType.FTS,
    limit: LimitOption = 8,
    schema: Annotated[bool, typer.Option("--schema", help="Show whole input schemas.")] = False,
    server: ServerOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find tools in the index, as tool_search does it for an agent; starts no server."""
    from toolcrib.catalog.tool_search import SearchRequest, search_json

    # An agent has these in its list already, a person has not.
    request = SearchRequest(query, kind, limit, include_always=True, server=server)
    detail: Literal["signature", "schema"] = "schema" if schema else "signature"

    async def find(indexed: "Indexed", session: "Session") -> "tuple[SearchAnswer, list[str]]":
        unlisted = [key for key in indexed.unlisted if server in (None, key)]
        # "Nothing found" would be untrue of an index that was never filled.
        if unlisted and not indexed.catalog.tools:
            raise BadRequest(_unlisted_text(unlisted))
        found = await indexed.finder.find(session, request, indexed.catalog, detail, _no_state)
        return _with_left_out(found, indexed, session), unlisted

    answer, unlisted = with_index(config, find, server, command="search")
    notes = [answer.note] if answer.note else []
    if as_json:
        print_json({**search_json(answer), "unlisted": unlisted})
        return
    for hit in answer.hits:
        _print_hit(hit)
    print_lines([*([] if answer.hits else ["Nothing found."]), *notes])
    if unlisted:
        print_text(_unlisted_text(unlisted), error=True)


def call(
    name: ToolArgument,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="ARGUMENTS", help=HELP)] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Call a tool, as tool_call does it for an agent, and print its answer."""
    from toolcrib.policy.requests import Request

    given = parse_arguments(arguments or ())
    line = WaitingLine(f"calling {name}", quiet=as_json)

    async def run(tool_use_cases: "ToolUseCases", session: "Session") -> JsonObject:
        request = Request(session, on_progress=partial(_show_progress, line))
        schema = await _schema(tool_use_cases, session, name) if given.texts else {}
        return await tool_use_cases.call_any(request, name, given.typed(schema))

    result = with_tools(config, run, line, command="call", choose=for_tool(name), tool=name)
    if as_json:
        print_json(result)
    else:
        # A refusal is a text of ours, mostly; a result may be a file.
        show = print_text if result.get("isError") else print_verbatim
        show(_result_text(result), error=bool(result.get("isError")))
    fail_if(result.get("isError"))


async def _schema(tool_use_cases: "ToolUseCases", session: "Session", name: str) -> JsonObject:
    """Return the input schema of the tool of this name, by which texts get their types; empty if there is none."""
    from anyio.to_thread import run_sync

    await tool_use_cases.fleet.first_listing(tool_use_cases.fleet.listing_first)
    catalog = tool_use_cases.indexer.current()
    tool = catalog.find(name, tool_use_cases.gate.permitted(session, catalog))
    if tool is None:
        return {}
    view = tool_use_cases.finder.view(session, catalog)
    described = await run_sync(view.described, [tool.row])
    return as_object(described[tool.row][0].get("inputSchema")) if tool.row in described else {}


@commands.command("list")
def list_tools(
    server: ServerOption = None,
    mode: Annotated[LoadingMode | None, typer.Option(help="Only tools of this loading mode.")] = None,
    limit: RowsOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List every tool that may be called, listed to agents or not."""

    async def read(tool_use_cases: "ToolUseCases", session: "Session") -> list[tuple[Tool, JsonObject]]:
        if server is not None:
            await _require_listed(tool_use_cases, server)
        definitions = {each["name"]: each for each in await _definitions(tool_use_cases, session)}
        tools = tool_use_cases.gate.allowed(session, tool_use_cases.indexer.current()).tools
        return [(tool, definitions[tool.public_name]) for tool in tools if tool.public_name in definitions]

    shown = [
        (tool, definition)
        for tool, definition in with_tools(config, read, WaitingLine(quiet=as_json), server, command="tools list")
        if server in (None, tool.server) and mode in (None, tool.loading_mode)
    ]
    shown = shown[:limit]
    answer = [{**definition, "loading_mode": tool.loading_mode} for tool, definition in shown]
    rows = [(tool.public_name, tool.loading_mode, _summary(definition)) for tool, definition in shown]
    plain = [f"{name}  [{mode}]  {summary}".rstrip() for name, mode, summary in rows]
    print_answer(answer, table(("TOOL", "LISTED", Column("WHAT IT DOES", words=True)), rows, plain), as_json=as_json)


async def _require_listed(tool_use_cases: "ToolUseCases", server: str) -> None:
    """Wait for the list of a server that was never listed.

    Raises:
        ToolcribError: it cannot be started, or its list cannot be read; the text says why, and what to do.

    """
    from toolcrib.downstream.fleet import failed

    await tool_use_cases.fleet.first_listing([server])
    if server in tool_use_cases.indexer.unlisted():
        why = failed(tool_use_cases.fleet.statuses()).get(server) or "it has not answered yet"
        raise ToolcribError(
            f"The server {server} could not be listed: {why.rstrip('.')}. `toolcrib logs {server}` shows what it wrote."
        )


def _summary(definition: JsonObject) -> str:
    summary, _rest = split_summary(definition.get("description", ""))
    return truncate(one_line(summary), _DESCRIPTION)


@commands.command()
def show(name: ToolArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show one tool as agents see it."""

    async def read(tool_use_cases: "ToolUseCases", session: "Session") -> tuple[JsonObject, JsonObject | None]:
        definitions = await _definitions(tool_use_cases, session)
        catalog = tool_use_cases.indexer.current()
        tool = catalog.find(name, tool_use_cases.gate.allowed(session, catalog))
        for definition in definitions:
            if tool is not None and definition["name"] == tool.public_name:
                return definition, await tool_use_cases.original(tool)
        near = await tool_use_cases.finder.near_names(session, name, catalog)
        raise BadRequest(f"{UnknownTool(name)}{near}")

    line = WaitingLine(quiet=as_json)
    definition, original = with_tools(config, read, line, command="tools show", choose=for_tool(name))
    rest = {key: value for key, value in definition.items() if key not in ("name", "description", "_meta")}
    text = f"{definition['name']}\n\n{definition.get('description', '')}\n"
    if as_json:
        print_json({**definition, "original": original} if original else definition)
        return
    print_text(text)
    print_verbatim(json.dumps(rest, indent=2, ensure_ascii=False))
    if original:
        print_text("\nIn the server's own words (the config has others, servers.NAME.tools):")
        print_verbatim(json.dumps(original, indent=2, ensure_ascii=False))


async def _definitions(tool_use_cases: "ToolUseCases", session: "Session") -> list[JsonObject]:
    session.pass_through = True  # the deferred tools too
    return await tool_use_cases.list_tools(session)


async def _show_progress(line: WaitingLine, progress: float, total: float | None, message: str | None) -> None:
    share = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
    # Progress of the tool takes the place of the line about waiting.
    line.clear()
    print_text(f"... {share}{f' {one_line(message)}' if message else ''}", error=True)


def _no_state(_tool: Tool) -> None:
    """Say nothing of a server's state: none is up."""


def _with_left_out(answer: "SearchAnswer", indexed: "Indexed", session: "Session") -> "SearchAnswer":
    """Return the answer with a note on servers that the query may mean and that the config leaves out."""
    from toolcrib.gateway.missing_servers import MissingServers

    left_out = MissingServers(indexed.settings).left_out(answer.query, indexed.gate.permissions(session))
    return replace(answer, note=" ".join(filter(None, (answer.note, left_out))) or None)


def _unlisted_text(servers: "Sequence[str]") -> str:
    """Return what to do about servers that were never listed as they are configured now."""
    more = f" and {len(servers) - _NAMED_MAX} more" if len(servers) > _NAMED_MAX else ""
    named = ", ".join(map(one_line, servers[:_NAMED_MAX]))
    return f"Not searched, because not listed yet: {named}{more}. `toolcrib index refresh` lists every server."


def _print_hit(hit: "FoundTool") -> None:
    name, shown = hit.tool.public_name, hit.shown
    rest = shown.as_line(name).removeprefix(name)
    print_text(f"{rest}\n      {shown.description}".rstrip(), lead=f"{hit.score:.2f}  {name}", role=Role.NAME)
    if shown.input_schema is not None:
        print_verbatim(json.dumps(shown.input_schema, indent=2, ensure_ascii=False))


def _result_text(result: JsonObject) -> str:
    """Return a tool's result as text; blocks of other kinds are named."""
    from toolcrib.gateway.blocks import is_structured_alone, structured_text, text_of  # loaded by the call

    content = cast("list[Any]", result.get("content") or [])
    blocks = [_block_name(block) if (text := text_of(block)) is None else text for block in content]
    # Servers should repeat structured content as text (2025-06-18, "Structured Content"); not all do.
    if is_structured_alone(result):
        text = structured_text(result, partial(json.dumps, indent=2, ensure_ascii=False))
        blocks = [*filter(None, blocks), *([text] if text else [])]
    return "\n".join(blocks)


def _block_name(block: Any) -> str:
    match block:
        case {"type": str(kind), "mimeType": str(mime), "data": str(data)}:
            return f"[{kind}: {mime}, {len(data) * 3 // 4} bytes]"
        case {"type": str(kind)}:
            return f"[{kind}: see --json]"
        case _:
            return "[unknown content type: see --json]"
