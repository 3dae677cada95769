"""``toolcrib doctor``: everything that toolcrib stands on looked at, each finding with what mends it.

Knows how findings are gathered and told; never knows how a config is read, a server started or an index written.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from toolcrib.cli.importing import surroundings
from toolcrib.cli.in_process import Tried, status_now, try_servers
from toolcrib.cli.options import ConfigOption, JsonOption, load_settings
from toolcrib.cli.output import ExitCode, print_json, print_text
from toolcrib.cli.waiting import WaitingLine
from toolcrib.errors import ConfigError, Problem, ToolcribError

if TYPE_CHECKING:
    from toolcrib.config.settings import Settings

WITHIN_S = 10.0
"""How long a server may take; one that takes longer is called slow."""

_PREFIX = len("mcp__toolcrib__")
"""What clients that name tools after their server put in front, of the 64 characters that they allow."""

Level = Literal["ok", "warning", "error"]
_MARKS: dict[Level, str] = {"ok": "ok     ", "warning": "warning", "error": "wrong  "}


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about one thing, and what mends it; nothing where nothing is wrong."""

    about: str
    level: Level
    text: str
    remedy: str = ""


def doctor(
    fix: Annotated[bool, typer.Option("--fix", help="Make folders that are missing; nothing else is changed.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Look at config, servers, index, state, skills and connected clients; starts each server once."""
    findings = list(_findings(config, fix=fix, quiet=as_json))
    is_wrong = any(finding.level == "error" for finding in findings)
    if as_json:
        print_json({"ok": not is_wrong, "findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            remedy = f"\n           {finding.remedy}" if finding.remedy else ""
            print_text(f"{_MARKS[finding.level]}  {finding.about}: {finding.text}{remedy}")
    if is_wrong:
        raise typer.Exit(ExitCode.FAILED)


def _findings(config: Path | None, *, fix: bool, quiet: bool) -> Iterator[Finding]:
    try:
        settings = load_settings(config)
    except ConfigError as error:
        for problem in error.problems:
            yield Finding("config", "error", f"{problem.path}: {problem.reason}", problem.hint or "change the file")
        return
    yield from _of_config(settings)
    yield from _folders(settings, fix=fix)
    yield from _of_servers(settings, quiet=quiet)
    yield from _of_index(settings)
    yield from _of_clients(settings)


def _of_config(settings: "Settings") -> Iterator[Finding]:
    from toolcrib.config.inspection import inspect

    if settings.config_path is None:
        yield Finding("config", "error", "there is none", "toolcrib init, or toolcrib add NAME -- COMMAND")
    else:
        yield Finding("config", "ok", f"{settings.source}, {len(settings.servers)} servers")
        yield from (_told(problem, "error") for problem in inspect(settings))
    left_out = [problem for problem in settings.skipped if problem.is_mistake]
    yield from (_told(problem, "error") for problem in left_out)
    yield from (_told(problem, "warning") for problem in settings.notices if problem.is_mistake)


def _told(problem: Problem, level: Level) -> Finding:
    return Finding("config", level, f"{problem.path}: {problem.reason}", problem.hint)


def _folders(settings: "Settings", *, fix: bool) -> Iterator[Finding]:
    from toolcrib.store.files import private_directory, set_aside

    for name, folder in (("index", settings.cache_dir), ("state", settings.state_dir)):
        try:
            if fix:
                private_directory(folder)
        except OSError as error:
            yield Finding(name, "error", f"{folder} cannot be made: {error.strerror}", "make it, or name another")
            continue
        if folder.is_dir() and not os.access(folder, os.W_OK):
            yield Finding(name, "error", f"{folder} cannot be written", f"chmod u+w {folder}")
        elif not folder.is_dir():
            yield Finding(name, "warning", f"{folder} is not there yet", "toolcrib doctor --fix makes it")
    for file in set_aside(settings.state_file):
        yield Finding("state", "warning", f"{file} was damaged and set aside", "decide again what it held; remove it")


def _of_servers(settings: "Settings", *, quiet: bool) -> Iterator[Finding]:
    if not settings.servers:
        return
    try:
        tried = try_servers(settings, WITHIN_S, WaitingLine(quiet=quiet))
    except ToolcribError as error:
        yield Finding("servers", "error", str(error), "toolcrib config check")
        return
    for key, server in tried.items():
        yield _of_server(key, server)


def _of_server(key: str, server: Tried) -> Finding:
    about = f"server {key}"
    if server.failed:
        return Finding(about, "error", server.failed, f"toolcrib logs {key}; toolcrib disable {key}")
    if server.seconds is None:
        return Finding(about, "warning", f"no answer within {WITHIN_S:.0f} s", f"toolcrib logs {key}")
    return Finding(about, "ok", f"{server.tools} tools in {server.seconds:.1f} s, {server.era or 'unknown'} protocol")


def _of_index(settings: "Settings") -> Iterator[Finding]:
    try:
        found = status_now(settings)
    except ToolcribError as error:
        yield Finding("index", "error", str(error), "toolcrib index clear")
        return
    yield from (Finding("index", "warning", f"{file} was made anew: {why}", "") for file, why in found.rebuilt.items())
    if found.skills is not None:
        wrong = found.skills.errors
        yield Finding("skills", "ok", f"{found.skills.count} loaded, {len(wrong)} left out")
        yield from (
            Finding("skills", "warning", f"{each.place}: {each.message}", f"toolcrib skills check {each.place}")
            for each in wrong
        )


def _of_clients(settings: "Settings") -> Iterator[Finding]:
    from toolcrib.cli.client_command import why_not_answered
    from toolcrib.config.clients.connecting import connected

    here, seen = surroundings(), dict[tuple[str, ...], str]()
    for client, file, command in connected(here):
        words = tuple(command)
        if words not in seen:
            seen[words] = why_not_answered(command, here.environ, WITHIN_S)
        about, again = f"client {client.key}", f"toolcrib connect {client.key}"
        if seen[words]:
            yield Finding(about, "error", f"its entry in {file} does not start: {seen[words]}", again)
        else:
            yield Finding(about, "ok", f"its entry in {file} starts")
    if not seen:
        yield Finding("clients", "warning", "none starts toolcrib", "toolcrib connect CLIENT")
    yield from _long_names(settings)


def _long_names(settings: "Settings") -> Iterable[Finding]:
    most = 64 - _PREFIX
    if settings.toolcrib.limits.name_max <= most:
        return []
    from toolcrib.cli.in_process import tool_names_now

    long = [name for name in tool_names_now(settings) if len(name) > most]
    if not long:
        return []
    text = f"{len(long)} names are longer than {most} characters, such as {long[0]}"
    return [Finding("names", "warning", text, f"toolcrib.limits.name_max: {most}, for clients that put more in front")]
