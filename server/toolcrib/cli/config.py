"""``toolcrib config``: which config file is used, whether it is valid, and its settings, with secrets masked."""

from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from toolcrib.base.errors import ConfigError, Problem
from toolcrib.base.model import JsonObject
from toolcrib.base.text import enumerated
from toolcrib.cli.output import (
    ConfigOption,
    ExitCode,
    JsonOption,
    error_problems,
    fail_if,
    load_settings,
    print_answer,
    print_json,
    print_text,
    print_verbatim,
    problem_json,
    warn,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolcrib.config.settings import ServerSettings, Settings

_NAMES_ROOM = 300
"""Characters of names in one line."""
_CHECK_MS = 1000
"""Time for checking one example: more than while serving, where calls wait for it."""

commands = typer.Typer(help="Check and show the configuration.", no_args_is_help=True)


@commands.command()
def check(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Check the config file and report every problem."""
    try:
        settings = load_settings(config)
    except ConfigError as error:
        if not as_json:
            raise
        print_json({"ok": False, "source": error.source, "problems": error_problems(error)})
        raise typer.Exit(ExitCode.CONFIG) from None
    from toolcrib.config.checks import advice

    found = [*_wrong(settings)]
    wrong, unmatched = [each for each in found if each.is_mistake], [each for each in found if not each.is_mistake]
    written_better = advice(settings.config_path) if settings.config_path is not None else ()
    skipped, notices = settings.skipped, (*settings.notices, *settings.without_effect, *written_better, *unmatched)
    # Servers left out on purpose, and notes without a mistake, are fine for a script that checks.
    is_ok = not wrong and not any(each.is_mistake for each in (*skipped, *notices))
    if as_json:
        print_json(
            {
                "ok": is_ok,
                "source": settings.source,
                "servers": list(settings.servers),
                "env_file": env_file_json(settings),
                "problems": [problem_json(problem) for problem in wrong],
                "skipped": [problem_json(problem) for problem in skipped],
                "notices": [problem_json(problem) for problem in notices],
            }
        )
    else:
        counts = f"servers: {len(settings.servers)}, skipped: {len(skipped)}, notices: {len(notices)}"
        verdict = "OK:" if is_ok else "Usable, but with likely mistakes:"
        print_text(f"{verdict} {settings.source} ({counts})")
        if text := env_file_text(settings):
            print_text(text)
        warn(wrong, "wrong")
        warn(skipped, "skipped")
        warn(notices, "notice")
    fail_if(not is_ok)


def env_file_text(settings: "Settings") -> str:
    """Return where the variables of a config come from besides the environment; empty where from nowhere."""
    file = settings.env_file
    if file is None:
        return ""
    names = enumerated(sorted(file.variables), _NAMES_ROOM) or "none"
    return f"variables of {file.path}, where the environment has none of that name: {names}"


def env_file_json(settings: "Settings") -> JsonObject | None:
    """Return the file of variables that a config names, and their names."""
    file = settings.env_file
    return None if file is None else {"path": str(file.path), "variables": sorted(file.variables)}


def _wrong(settings: "Settings") -> "Iterator[Problem]":
    """Yield the problems of a usable config that only this machine and the index show."""
    from toolcrib.catalog.arguments import SchemaChecker
    from toolcrib.catalog.config_names import find_unmatched
    from toolcrib.config.checks import inspect
    from toolcrib.gateway.offline import open_index
    from toolcrib.gateway.runtime import Runtime

    runtime = Runtime()
    yield from (replace(problem, is_mistake=True) for problem in inspect(settings))
    # Names of tools are checked against the index only: a check starts no server.
    with open_index(settings, runtime) as index:
        yield from find_unmatched(settings, index, SchemaChecker(_CHECK_MS, runtime.clock))


@commands.command()
def show(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Print the settings in effect, defaults included and secrets masked."""
    shown = _settings_json(load_settings(config))
    if as_json:
        print_json(shown)
        return
    from toolcrib.base.yaml import to_yaml

    print_verbatim(to_yaml(shown))


@commands.command()
def path(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Print which config file is used, and where the index and the events are kept."""
    shown = _paths_json(load_settings(config))
    print_answer(shown, (f"{name}: {value}" for name, value in shown.items() if value), as_json=as_json)


def _paths_json(settings: "Settings") -> JsonObject:
    return {
        "source": settings.source,
        "config": settings.config_path and str(settings.config_path),
        "env_file": settings.env_file and str(settings.env_file.path),
        "cache_dir": str(settings.cache_dir),
        "tool_cache_dir": str(settings.tool_cache_dir),
        "state_dir": str(settings.state_dir),
        "events_file": str(settings.events_file),
    }


def _settings_json(settings: "Settings") -> JsonObject:
    shown = {
        **_paths_json(settings),
        "skipped": [str(problem) for problem in settings.skipped],
        "notices": [str(problem) for problem in settings.notices],
        "mcpServers": {key: server_json(server) for key, server in settings.servers.items()},
        "toolcrib": settings.toolcrib.model_dump(mode="json"),
    }
    return settings.redactor.cleaned(shown)


def server_json(server: "ServerSettings") -> JsonObject:
    """Return the target of a server; of its environment and headers the names only."""
    from toolcrib.base.redaction import MASK
    from toolcrib.config.private_values import masked
    from toolcrib.config.settings import HttpTarget, StdioTarget

    target = server.target
    if isinstance(target, StdioTarget):
        return {
            "command": target.command,
            "args": masked(target.args),
            "cwd": target.cwd and str(target.cwd),
            "env": sorted(target.env),
        }
    assert isinstance(target, HttpTarget), "a config file names no object of a program"
    return {
        "type": "sse" if target.sse else "http",
        "url": target.public_url,
        # That a header is there may explain a failure; most values are tokens.
        "headers": dict.fromkeys(target.headers, MASK),
    }
