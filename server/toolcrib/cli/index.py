"""``toolcrib status`` and ``index``: shows the state of the servers, and refreshes or deletes the indexes."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.auth.records import login_text
from toolcrib.base.errors import ModelUnavailable
from toolcrib.base.text import enumerated
from toolcrib.cli.completion import ServerOption
from toolcrib.cli.enriching import enrich
from toolcrib.cli.extras import programs_state
from toolcrib.cli.in_process import status_now, with_tools
from toolcrib.cli.output import (
    ConfigOption,
    JsonOption,
    counted,
    fail_if,
    load_settings,
    print_answer,
    print_json,
    print_text,
    print_verbatim,
    problem_json,
    warn,
)
from toolcrib.cli.screen import Role
from toolcrib.cli.top import running_lines, running_now
from toolcrib.cli.vocabulary import vocabulary
from toolcrib.cli.waiting import WaitingLine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from toolcrib.base.model import JsonObject
    from toolcrib.catalog.index import Changes
    from toolcrib.catalog.indexing import CatalogChange
    from toolcrib.config.settings import Settings
    from toolcrib.gateway.status import ServerStatus, Status
    from toolcrib.gateway.tools import ToolUseCases
    from toolcrib.policy.client_profiles import ClientProfile
    from toolcrib.policy.sessions import Session
    from toolcrib.search.semantic import SemanticState

_FEW = "gate.pass_through_tokens"
_NAMES_ROOM = 200

commands = typer.Typer(help="Manage the index of tools.", no_args_is_help=True)
commands.command()(vocabulary)
commands.command()(enrich)


def status(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show the state of servers and skills, and your running toolcribs; starts no server."""
    from toolcrib.policy.client_profiles import ClientProfiles
    from toolcrib.storage.files import set_aside
    from toolcrib.storage.opening import sqlite_version
    from toolcrib.storage.store import faults_of

    settings = load_settings(config)
    found = status_now(settings)
    profiles = ClientProfiles(settings, "stdio")
    listing, known = profiles.profile("").listing, profiles.known
    programs = programs_state(settings)
    if as_json:
        about = {
            "config": settings.source,
            "index": str(settings.tool_cache),
            "index_exists": settings.tool_cache.exists(),
            "state": str(settings.state_file),
            "state_exists": settings.state_file.exists(),
            "sqlite": {"version": sqlite_version(), "faults": [fault.name for fault in faults_of(sqlite_version())]},
            "state_set_aside": [file.name for file in set_aside(settings.state_file)],
            "skipped": [problem_json(problem) for problem in settings.skipped],
        }
        hosts = [{"clients": clients, **profile.as_json} for clients, profile in known.items()]
        running = [instance.as_json for instance in running_now()]
        print_json(
            {
                **about,
                **found.as_json,
                "programs": programs.as_json,
                "listing": listing,
                "hosts": hosts,
                "running": running,
            }
        )
        return
    if nothing := settings.why_no_servers:
        print_text(f"  config: {nothing.reason}\n           {nothing.hint}", lead="wrong  ", role=Role.BAD)
    for what, why, remedy in _wrong(found, set_aside(settings.state_file)):
        print_text(f"  {what}: {why}\n           {remedy}", lead="wrong  ", role=Role.BAD)
    for file, reason in found.rebuilt.items():
        print_text(f"  {file}: {reason}", lead="rebuilt", role=Role.WARNING)
    warn(settings.skipped, "skipped")
    warn(settings.notices, "notice")
    known_bugs = faults_of(sqlite_version())
    install = f"         {programs.command}"
    parts = [
        *_server_lines(found),
        *_skill_lines(found, is_enabled=settings.toolcrib.skills.enabled),
        *running_lines(running_now(), time.time()),
        f"semantic {_semantic_text(found.semantic)}",
        f"programs {programs.text}",
        *([install] if programs.install else []),
        *_reload_lines(found),
        f"listing  {listing}, for unknown clients",
        *([f"         all {found.allowed} tools, because they are few ({_FEW})"] if found.whole_list else []),
        *_profile_lines(known),
        f"config   {settings.source}",
        f"index    {settings.tool_cache}{'' if settings.tool_cache.exists() else ' (not created yet)'}",
        f"state    {settings.state_file}{'' if settings.state_file.exists() else ' (not created yet)'}",
        f"sqlite   {sqlite_version()}",
        *(f"         known bug {each.name}, avoided: {each.remedy} ({each.source})" for each in known_bugs),
    ]
    for part in parts:
        if part == install:  # a person copies it, so it is not broken into lines
            print_verbatim(part)
            continue
        # The first word of what is not indented says what the line is about.
        lead = "" if part.startswith(" ") else part.partition(" ")[0]
        print_text(part.removeprefix(lead), lead=lead)


@commands.command()
def refresh(server: ServerOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Start every server once, or one, and list its tools again."""
    from toolcrib.downstream.fleet import failed

    written: dict[str, Changes] = {}

    def note(change: "CatalogChange") -> None:
        if change.server is not None and change.rows is not None:
            before = written.get(change.server)
            written[change.server] = change.rows.after(before) if before else change.rows

    async def list_anew(tool_use_cases: "ToolUseCases", _session: "Session") -> dict[str, str]:
        tool_use_cases.indexer.subscribe(note)
        return failed(await tool_use_cases.fleet.list_all(None if server is None else [server]))

    line = WaitingLine(quiet=as_json)
    failures = with_tools(config, list_anew, line, server, command="index refresh", choose=None)
    listed = [each for each in status_now(load_settings(config)).servers if server in (None, each.key)]
    answer = [
        {**each.as_json, "failed": failures.get(each.key), "rows": _rows_json(written.get(each.key))} for each in listed
    ]
    lines = [_server_text(each, failures.get(each.key)) for each in listed]
    print_answer(answer, [*lines, _rows_text(written, listed)], as_json=as_json)
    fail_if(failures)


def _rows_json(rows: "Changes | None") -> "JsonObject | None":
    """Return how many rows of the index a list has changed; None where no list came."""
    return rows and {"added": rows.added, "updated": rows.updated, "removed": rows.removed}


def _rows_text(written: "Mapping[str, Changes]", servers: "Sequence[ServerStatus]") -> str:
    added, updated, removed = (
        sum(getattr(rows, name) for rows in written.values()) for name in ("added", "updated", "removed")
    )
    unchanged = sum(server.tools for server in servers if server.key in written) - added - updated
    return f"index: {counted(added + updated, 'row')} written, {removed} removed, {unchanged} unchanged"


@commands.command()
def clear(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Delete the indexes of tools and skills; decisions are kept. Restart any running toolcrib."""
    from toolcrib.catalog.index import known_tools

    settings = load_settings(config)
    # Counted before the file is gone.
    forgotten = known_tools(settings.tool_cache)
    discard_indexes(settings)
    text = f"Deleted {forgotten} tools and all skills from the index. The next start lists them again."
    print_answer({"forgotten": forgotten}, text, as_json=as_json)


def discard_indexes(settings: "Settings") -> None:
    """Remove the indexes of a config.

    Raises:
        StoreError: a file cannot be removed.

    """
    from toolcrib.storage.files import discard

    for file in (settings.tool_cache, settings.skill_cache):
        if file.exists():
            discard(file)


@commands.command()
def semantic(
    config: ConfigOption = None,
    as_json: JsonOption = False,
    download: Annotated[
        bool, typer.Option("--download", help="Download `tool_search.semantic.model` first, from the Hugging Face hub.")
    ] = False,
) -> None:
    """Show the state of search by meaning, or download a larger model for it."""
    from toolcrib.gateway.offline import semantic_model
    from toolcrib.search.semantic import state_of
    from toolcrib.search.static_model import download_model, files_in, find_model, load_model

    settings = load_settings(config)
    section, folder = settings.toolcrib.tool_search.semantic, settings.downloaded_model_dir
    own = None if section.path is None else Path(section.path)
    if download:
        if own:
            raise ModelUnavailable("tool_search.semantic.path names your own folder: put a model there.")
        download_model(section.model, folder)
        load_model(files_in(folder))
    used, place = section.model, own or folder
    state = state_of(shared := semantic_model(settings))
    if shared and state.state == "ready":
        files = find_model(own, folder)
        used, place = (files.label, files.weights.parent) if files.weights.parent != folder else (used, folder)
        shared.get()  # a model that is there may still fail as it is loaded
        state = shared.state()
    lines = (f"state    {_semantic_text(state)}", f"model    {used}", f"path     {place}")
    print_answer({**state.json(), "model": used, "path": str(place)}, lines, as_json=as_json)
    fail_if(state.state == "unavailable")


def _semantic_text(state: "SemanticState") -> str:
    return state.state + (f": {state.reason}" if state.reason else "")


def _profile_lines(known: "Mapping[str, ClientProfile]") -> "Iterator[str]":
    """Yield which list and which answers the known clients get; those who get the same share a line."""
    groups: dict[tuple[str, bool], list[str]] = {}
    for clients, profile in known.items():
        groups.setdefault((profile.listing, profile.structured), []).append(clients)
    for (listing, structured), clients in groups.items():
        answers = "structured answers" if structured else "text alone"
        yield f"         {listing}, {answers}: {', '.join(clients)}"


def _wrong(found: "Status", aside: "Sequence[Path]") -> "Iterator[tuple[str, str, str]]":
    """Yield what is wrong: what it is about, why, and the remedy."""
    for server in found.servers:
        if server.failure:
            failure, since = server.failure.failure, server.as_json["failure"]["since"]
            # The remedy of a missing login is the command for it.
            again = f"toolcrib logs {server.key}; toolcrib index refresh -s {server.key}"
            remedy = failure.remedy if "toolcrib login" in failure.remedy else f"{failure.remedy} {again}".strip()
            yield server.key, f"{failure.reason} (since {since})", remedy
    for file in aside:
        yield "state", f"damaged and set aside, with your earlier decisions: {file.name}", "repeat them; remove it"
    if found.loaded and found.loaded.failure:
        why = f"the config could not be reloaded, so the previous one stays in use: {found.loaded.failure}"
        yield "config", why, "toolcrib config check"


def _server_lines(found: "Status") -> "Iterator[str]":
    down = sum(server.failure is not None for server in found.servers)
    failed = f"; {down} of them failed" if down else ""
    yield f"servers  {len(found.servers)}, with {found.allowed} tools{failed}"
    yield from (_server_text(server, is_told=True) for server in found.servers)
    if by_age := [each.key for each in found.servers if each.listed and each.listed.checked_by == "age"]:
        yield (
            f"  no file shows an upgrade of {enumerated(by_age, _NAMES_ROOM)}: listed again when used, or by age "
            "(limits.catalog_max_age_s)"
        )


def _reload_lines(found: "Status") -> "Iterator[str]":
    if found.loaded and not found.loaded.failure:
        yield f"reload   {found.loaded.as_json['at']}: read again"


def _skill_lines(found: "Status", *, is_enabled: bool) -> "Iterator[str]":
    skills = found.skills
    if skills is None:
        yield f"skills   {'not read yet' if is_enabled else 'off'}"
    else:
        sources = ", ".join(f"{count} from {source}" for source, count in skills.sources.items())
        yield f"skills   {skills.count}" + (f": {sources}" if sources else "")
        yield from (f"  not loaded: {error.place}: {error.message}" for error in skills.errors)


def _server_text(server: "ServerStatus", failed: str | None = None, *, is_told: bool = False) -> str:
    """Return the lines about a server; ``is_told``: why it failed, and how its list is checked, is said elsewhere."""
    listed = server.as_json["listed_at"]
    counts = [f"{server.tools} tools", *(f"{count} {kind}s" for kind, count in server.offers.items() if count)]
    unlisted = "not started: the policy denies all its tools to everyone" if server.is_closed else "not listed yet"
    lines = [f"  {server.key}: " + (f"{', '.join(counts)}, listed {listed}" if listed else unlisted)]
    if is_told:
        lines[0] += ", failed: see above" if server.failure else ""
    elif server.listed and server.listed.checked_by == "age":
        lines.append("    no file shows an upgrade: listed again when it is used, or by age (limits.catalog_max_age_s)")
    if server.login:
        lines.append(f"    logged in{login_text(server.login)}")
    if server.failure and not is_told:
        lines.append(f"    failed: {server.failure.failure} (since {server.as_json['failure']['since']})")
    elif failed and not is_told:
        lines.append(f"    failed: {failed}")
    if server.listed:
        lines += [f"    refused: {each.name}: {each.reason}" for each in server.listed.refused]
        lines += [f"    may have more tools: {server.listed.cut}"] if server.listed.cut else []
    return "\n".join(lines)
