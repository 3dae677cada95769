"""``toolcrib status`` and ``index``: what is known of the servers, and how to make it known anew.

Knows how the index is shown to a person; never knows how it is written, and starts nothing but to refresh it.
"""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.cli.in_process import with_crib
from toolcrib.cli.options import ConfigOption, JsonOption, load_settings
from toolcrib.cli.output import ExitCode, print_json, print_text, problem_json, warn
from toolcrib.config.paths import user_model_dir
from toolcrib.config.settings import ServerSettings, Settings
from toolcrib.errors import ModelUnavailable, StoreError
from toolcrib.model import JsonObject
from toolcrib.search.encoding import OFF, SemanticState
from toolcrib.search.static_model import download_model, load_model
from toolcrib.store.opening import discard
from toolcrib.store.store import Store
from toolcrib.tools.index.rows import rows_fingerprint
from toolcrib.tools.index.tables import TOOLS_SCHEMA
from toolcrib.tools.index.tool_index import ServerRow, ToolIndex, known_tools

if TYPE_CHECKING:
    from toolcrib.access.sessions import Session
    from toolcrib.tools.use_cases import Crib

commands = typer.Typer(help="Look after the index of tools.", no_args_is_help=True)


def status(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Say what is known of every server, without starting any."""
    settings = load_settings(config)
    view = _status_view(settings)
    if as_json:
        print_json(view)
        return
    over = view["listing"]
    print_text(f"config   {view['config']}")
    print_text(f"index    {view['index']}{'' if view['index_exists'] else ' (not made yet)'}")
    print_text(f"listing  {over['stdio']} over stdio, {over['http']} over HTTP")
    print_text(f"semantic {_semantic_text(view['semantic'])}")
    print_text(f"servers  {len(view['servers'])}, with {sum(server['tools'] for server in view['servers'])} tools")
    for server in view["servers"]:
        print_text(_server_text(server))
    warn(settings.skipped, "skipped")
    warn(settings.notices, "notice")


@commands.command()
def refresh(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Start every server once and list its tools anew."""
    from toolcrib.downstream.fleet import failed

    async def list_anew(crib: "Crib", _session: "Session") -> dict[str, str]:
        return failed(await crib.list_servers())

    failures = with_crib(config, list_anew)
    servers = [
        {**server, "failed": failures.get(server["server"])}
        for server in _status_view(load_settings(config))["servers"]
    ]
    if as_json:
        print_json(servers)
    else:
        for server in servers:
            print_text(_server_text(server))
    if any(server["failed"] for server in servers):
        raise typer.Exit(ExitCode.FAILED)


@commands.command()
def clear(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Forget every listed tool and skill; what was decided stays. Restart a toolcrib that is running."""
    from toolcrib.app import Outside, open_decisions

    settings = load_settings(config)
    forgotten = known_tools(settings.tool_cache)
    indexes = [file for file in (settings.tool_cache, settings.skill_cache) if file.exists()]
    if indexes:
        with open_decisions(settings, Outside()) as state:
            if not state.has_all:
                raise StoreError(
                    "Nothing was removed: the index holds decisions of an earlier version, which "
                    f"{settings.state_file} could not take over. Make that file's folder writable, or name another as "
                    "toolcrib.state_dir."
                )
    for file in indexes:
        discard(file)
    if as_json:
        print_json({"forgotten": forgotten})
    else:
        print_text(f"Forgot {forgotten} tools, and every skill. The next start lists and reads them anew.")


@commands.command()
def semantic(
    config: ConfigOption = None,
    as_json: JsonOption = False,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch the model first, from the Hugging Face hub.")
    ] = False,
) -> None:
    """Say whether search goes by meaning too, and fetch the model it needs."""
    settings = load_settings(config)
    section = settings.toolcrib.tool_search.semantic
    folder = _model_folder(settings)
    if download:
        if folder != user_model_dir(os.environ, section.model):
            raise ModelUnavailable("tool_search.semantic.path names a folder of your own: put a model there.")
        download_model(section.model, folder)
        load_model(folder)
    state = _semantic_state(settings)
    if as_json:
        print_json({**state.json(), "model": section.model, "path": str(folder)})
    else:
        print_text(f"state    {_semantic_text(state.json())}")
        print_text(f"model    {section.model}")
        print_text(f"path     {folder}")
    if state.state == "unavailable":
        raise typer.Exit(ExitCode.FAILED)


def _model_folder(settings: Settings) -> Path:
    section = settings.toolcrib.tool_search.semantic
    return user_model_dir(os.environ, section.model) if section.path is None else Path(section.path)


def _semantic_state(settings: Settings) -> SemanticState:
    """Return whether search goes by meaning too; this loads the model, where that is configured."""
    if not settings.toolcrib.tool_search.semantic.enabled:
        return OFF
    try:
        load_model(_model_folder(settings)).encode(["tool"])
    except ModelUnavailable as error:
        return SemanticState("unavailable", str(error))
    return SemanticState("ready")


def _semantic_text(state: JsonObject) -> str:
    return state["state"] + (f": {state['reason']}" if state["reason"] else "")


def _status_view(settings: Settings) -> JsonObject:
    from toolcrib.app import settle_listing

    rows = _rows(settings)
    return {
        "config": settings.source,
        "index": str(settings.tool_cache),
        "index_exists": settings.tool_cache.exists(),
        "listing": {transport: settle_listing(settings, transport) for transport in ("stdio", "http")},
        "semantic": _semantic_state(settings).json(),
        "servers": [_server_view(server, rows.get(key)) for key, server in settings.servers.items()],
        "skipped": [problem_json(problem) for problem in settings.skipped],
    }


def _server_view(server: ServerSettings, row: ServerRow | None) -> JsonObject:
    """Return what is known of a server; of a listing under another config, nothing."""
    if row is None or row.config_fingerprint != rows_fingerprint(server.fingerprint):
        return {"server": server.key, "tools": 0, "listed_at": None, "protocol": None, "refused": []}
    return {
        "server": server.key,
        "tools": row.tool_count,
        "listed_at": datetime.fromtimestamp(row.listed_at, UTC).isoformat(timespec="seconds"),
        "protocol": row.era,
        "refused": [{"name": each.name, "reason": each.reason} for each in row.refused],
    }


def _rows(settings: Settings) -> dict[str, ServerRow]:
    """Return what the index knows of servers; no file is made."""
    if not settings.tool_cache.exists():
        return {}
    with Store(settings.tool_cache, TOOLS_SCHEMA, fts=settings.toolcrib.tool_search.fts) as store:
        return ToolIndex(store).server_rows()


def _server_text(server: JsonObject) -> str:
    known = f"{server['tools']} tools, listed {server['listed_at']}" if server["listed_at"] else "not listed yet"
    lines = [f"  {server['server']}: {known}"]
    if server.get("failed"):
        lines.append(f"    failed: {server['failed']}")
    lines += [f"    refused: {each['name']}: {each['reason']}" for each in server["refused"]]
    return "\n".join(lines)
