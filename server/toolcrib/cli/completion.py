"""Shell completion of the names of servers and tools. On any failure it offers nothing and prints nothing."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.base.errors import ToolcribError
from toolcrib.cli.in_process import Indexed, with_index
from toolcrib.cli.output import load_settings

if TYPE_CHECKING:
    from toolcrib.policy.sessions import Session


def server_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the servers of the config named before this word, else of the one that is found, that begin so."""
    try:
        servers = load_settings(context.params.get("config")).servers
    except ToolcribError:
        # A shell would print an error into the line that the person is typing.
        return []
    return [key for key in servers if key.startswith(incomplete)]


def tool_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the tools in the index of that config that begin so, with their server or without."""
    try:
        return with_index(context.params.get("config"), partial(_tools_beginning, incomplete), command="completion")
    except ToolcribError:
        return []


async def _tools_beginning(incomplete: str, indexed: Indexed, session: "Session") -> list[str]:
    tools = indexed.gate.allowed(session, indexed.catalog).tools
    found = [tool.public_name for tool in tools if tool.public_name.startswith(incomplete)]
    return found or sorted({tool.name for tool in tools if tool.name.startswith(incomplete)})


ServerOption = Annotated[
    str | None, typer.Option("--server", "-s", help="Only this server.", autocompletion=server_names)
]
