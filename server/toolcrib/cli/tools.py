"""``toolcrib search``, ``call`` and ``tools``: a person does what an agent would do, with the same rules.

Knows how tools and results are shown in a terminal; never knows how they are found, permitted or called.
"""

import json
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from toolcrib.base.text import one_line, split_summary, truncate
from toolcrib.cli.completion import server_names
from toolcrib.cli.in_process import with_tools
from toolcrib.cli.options import ConfigOption, JsonOption
from toolcrib.cli.output import ExitCode, print_json, print_text
from toolcrib.errors import UnknownTool
from toolcrib.model import JsonObject, SearchType

if TYPE_CHECKING:
    from toolcrib.access.sessions import Session
    from toolcrib.tools.answers import FoundTool, SearchAnswer
    from toolcrib.tools.use_cases import ToolUseCases

_DESCRIPTION = 100

commands = typer.Typer(help="Look at the tools that an agent can use.", no_args_is_help=True)


def search(  # noqa: PLR0913, PLR0917 - one parameter an option
    query: Annotated[str, typer.Argument(help="What the tool should do; or a pattern, or a name.")],
    kind: Annotated[SearchType, typer.Option("--type", help="How the query is read.")] = SearchType.FTS,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Most results.")] = 8,
    schema: Annotated[bool, typer.Option("--schema", help="Show whole input schemas.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find tools, as tool_search does it for an agent."""
    from toolcrib.tools.answers import search_json
    from toolcrib.tools.search import SearchRequest

    request = SearchRequest(query, kind, limit, include_always=True, server=None)

    async def find(tool_use_cases: "ToolUseCases", session: "Session") -> "SearchAnswer":
        return await tool_use_cases.search_tools(session, request, "schema" if schema else "signature")

    answer = with_tools(config, find)
    if as_json:
        print_json(search_json(answer))
        return
    for hit in answer.hits:
        print_text(_hit_text(hit))
    if not answer.hits:
        print_text("Nothing found.")
    if answer.note:
        print_text(answer.note)


def call(
    name: Annotated[str, typer.Argument(help="The tool's name, as search shows it.")],
    arguments: Annotated[str, typer.Argument(metavar="JSON", help="Its arguments, as a JSON object.")] = "{}",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Call a tool, as tool_call does it for an agent, and print its answer."""
    from toolcrib.tools.use_cases import ToolCall

    try:
        given = json.loads(arguments)
    except ValueError as error:
        raise typer.BadParameter(f"is not JSON: {error}", param_hint="JSON") from None

    async def run(tool_use_cases: "ToolUseCases", session: "Session") -> JsonObject:
        wanted = ToolCall(name, given, meta={}, extra={}, on_progress=_show_progress, announce=_tell_nobody)
        return await tool_use_cases.call_any(session, wanted)

    result = with_tools(config, run)
    if as_json:
        print_json(result)
    else:
        print_text(_result_text(result), error=bool(result.get("isError")))
    if result.get("isError"):
        raise typer.Exit(ExitCode.FAILED)


@commands.command("list")
def list_tools(
    server: Annotated[str | None, typer.Option(help="Only this server's tools.", autocompletion=server_names)] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List every tool that may be called, listed to agents or not."""
    from toolcrib.tools.definitions.listed import SOURCE_META

    shown = [tool for tool in with_tools(config, _definitions) if server in (None, tool["_meta"][SOURCE_META]["owner"])]
    if as_json:
        print_json(shown)
        return
    for tool in shown:
        summary, _rest = split_summary(tool.get("description", ""))
        print_text(f"{tool['name']}  {truncate(one_line(summary), _DESCRIPTION)}".rstrip())


@commands.command()
def show(
    name: Annotated[str, typer.Argument(help="The tool's name, as search shows it.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one tool as agents see it."""

    async def look(tool_use_cases: "ToolUseCases", session: "Session") -> JsonObject:
        definitions = await _definitions(tool_use_cases, session)
        catalog = tool_use_cases.indexer.current()
        tool = catalog.find(name, tool_use_cases.gate.permitted(session, catalog))
        for definition in definitions:
            if tool is not None and definition["name"] == tool.public_name:
                return definition
        raise UnknownTool(name)

    definition = with_tools(config, look)
    if as_json:
        print_json(definition)
        return
    print_text(f"{definition['name']}\n\n{definition.get('description', '')}\n")
    rest = {key: value for key, value in definition.items() if key not in ("name", "description", "_meta")}
    print_text(json.dumps(rest, indent=2, ensure_ascii=False))


async def _definitions(tool_use_cases: "ToolUseCases", session: "Session") -> list[JsonObject]:
    session.pass_through = True
    return await tool_use_cases.list_tools(session)


async def _tell_nobody() -> None:
    """Leave the list as it is: nobody looks at it."""


async def _show_progress(progress: float, total: float | None, message: str | None) -> None:
    share = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
    print_text(f"... {share}{f' {one_line(message)}' if message else ''}", error=True)


def _hit_text(hit: "FoundTool") -> str:
    line = f"{hit.score:.2f}  {hit.shown.signature or hit.tool.public_name}"
    if hit.shown.description:
        line += f"\n      {hit.shown.description}"
    if hit.shown.input_schema is not None:
        line += f"\n{json.dumps(hit.shown.input_schema, indent=2, ensure_ascii=False)}"
    return line


def _result_text(result: JsonObject) -> str:
    """Return a tool's result as text: what is none is named by its kind."""
    blocks = [_block_text(block) for block in cast("list[Any]", result.get("content") or [])]
    if not blocks and "structuredContent" in result:
        blocks = [json.dumps(result["structuredContent"], indent=2, ensure_ascii=False)]
    return "\n".join(blocks)


def _block_text(block: Any) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": str(kind), "mimeType": str(mime), "data": str(data)}:
            return f"[{kind}: {mime}, {len(data) * 3 // 4} bytes]"
        case {"type": str(kind)}:
            return f"[{kind}: see --json]"
        case _:
            return "[something that is not in the protocol: see --json]"
