"""Reads the servers in a client's file with their positions: JSON with comments, YAML or TOML."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from toolcrib.base.errors import ConfigError, Problem
from toolcrib.base.json_values import as_list, as_object, value_at
from toolcrib.base.model import JsonObject
from toolcrib.clients.denials import (
    denied_servers,
    gemini_off,
    listed_denials,
    opencode_rules,
    standing_rules,
    switched_off,
    with_rules,
)
from toolcrib.clients.entries import Prompt, ReadEntry, Use, VariableContext, read_entry
from toolcrib.clients.known import Base, Client, Syntax, UserEnvironment, client_of, client_table
from toolcrib.config.documents import read_any
from toolcrib.config.paths import is_there
from toolcrib.config.tool_rules import Denials

_PROJECT_FOLDERS = (".vscode", ".cursor", ".codex", ".gemini", ".qwen", ".zed", ".claude", ".github")
"""Folders of clients inside a project: the project is the one around."""


@dataclass(frozen=True, slots=True)
class FoundServer:
    """A server of a client: its name there, the file, the path of keys to it, and what it is in toolcrib's words."""

    name: str
    client: Client
    file: Path
    place: tuple[str, ...]
    read: ReadEntry

    @property
    def origin(self) -> str:
        """Where it comes from, for people."""
        return f"{self.client.title}, {self.file}"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """An existing file of a client: its servers, and its problems."""

    client: Client
    file: Path
    servers: tuple[FoundServer, ...] = ()
    problems: tuple[Problem, ...] = ()


def find_files(user: UserEnvironment, clients: Sequence[Client] = (), *, project: bool = False) -> Iterator[FoundFile]:
    """Yield every file of the clients, by default of all, that is there.

    Those in the working directory are read only for ``project``.
    """
    for client in clients or client_table().clients:
        seen: set[str] = set()
        for file in client.files:
            path = user.locate(file)
            # Files of a repository come from its authors, so they are read only on request.
            if file.is_project <= project and os.path.realpath(path) not in seen and is_there(path):
                seen.add(os.path.realpath(path))
                yield read_file(path, client, user, in_project=file.is_project)


def project_files(user: UserEnvironment) -> list[Path]:
    """Return the files of clients in the working directory, unread, but for those of the person."""
    files = [file for client in client_table().clients for file in client.files]
    # In the home directory, the file of a project may be the person's own.
    own = {os.path.realpath(user.locate(file)) for file in files if not file.is_project}
    places = dict.fromkeys(user.locate(file) for file in files if file.is_project)
    return [path for path in places if os.path.realpath(path) not in own and is_there(path)]


def read_file(path: Path, client: Client | None, user: UserEnvironment, *, in_project: bool = True) -> FoundFile:
    """Return the content of a file, read as ``client`` reads it, or as the client whose file it seems to be.

    ``in_project``: what the file says of a workspace is about the folder that it lies in.
    """
    known = client or client_of(path)
    try:
        document, problems = read_any(path)
    except ConfigError as error:
        return FoundFile(known or client_table().other, path, problems=error.problems)
    known = known or _by_words(document)
    servers = servers_in(document, FoundFile(known, path), user, in_project=in_project)
    return FoundFile(known, path, servers, tuple(_as_its_client_reads(problems)))


def servers_in(
    document: JsonObject, of: FoundFile, user: UserEnvironment, *, in_project: bool
) -> tuple[FoundServer, ...]:
    """Return the servers in what a client's file holds, as ``read_file`` does."""
    folder = _project_of(of.file) if in_project else None
    context = VariableContext(of.client.syntax, user.home, folder, _prompts(document, of.client))
    return tuple(_servers(document, of, context, tuple(_documents_beside(of, user, folder))))


def _project_of(path: Path) -> Path:
    folder = path.absolute().parent
    return folder.parent if folder.name in _PROJECT_FOLDERS else folder


def _by_words(document: JsonObject) -> Client:
    """Return the client that writes such a file, as far as its keys tell; else one that may be any."""
    # In order: VS Code's settings may have "mcp" too, which is handled below.
    words = {
        "mcp_servers": "codex",
        "context_servers": "zed",
        "extensions": "goose",
        "servers": "vscode",
        "mcp": "opencode",
    }
    found = next((name for key, name in words.items() if _holds_objects(document.get(key))), None)
    if found is None:
        entries = as_object(document.get("mcpServers")).values()
        keys = {key for entry in entries for key in as_object(entry)}
        found = "gemini-cli" if "httpUrl" in keys else "windsurf" if "serverUrl" in keys else None
    if found == "opencode" and value_at(document, ("mcp", "servers")) is not None:
        found = "vscode"
    return next((client for client in client_table().clients if client.key == found), client_table().other)


def _holds_objects(value: Any) -> bool:
    return any(isinstance(each, dict) for each in as_object(value).values())


def _prompts(document: JsonObject, client: Client) -> dict[str, Prompt]:
    if Syntax.INPUT not in client.syntax:
        return {}
    inputs = as_list(document.get("inputs")) or as_list(value_at(document, ("mcp", "inputs")))
    return {
        str(each.get("id")): Prompt(
            str(each.get("description") or ""), str(each.get("default") or ""), is_password=each.get("password") is True
        )
        for each in map(as_object, inputs)
    }


def _documents_beside(of: FoundFile, user: UserEnvironment, folder: Path | None) -> Iterator[JsonObject]:
    """Yield what a client says in other files of its servers, or of those of the project in ``folder``."""
    itself = os.path.realpath(of.file)
    for file in of.client.rule_files:
        path = user.locate(file) if folder is None or file.base is not Base.PROJECT else folder / file.path
        if is_there(path) and os.path.realpath(path) != itself:
            try:
                yield read_any(path)[0]
            except ConfigError:
                continue  # the client cannot read it either


def _servers(
    document: JsonObject, of: FoundFile, context: VariableContext, beside: Sequence[JsonObject]
) -> Iterator[FoundServer]:
    rules = [rule for each in (document, *beside) for rule in standing_rules(each)]
    places = list(_places(document, of.client))
    listed = listed_denials(document, {name for _, entries, _ in places for name in entries})
    for place, entries, around in places:
        # What stands in a project's part of a file is about that project.
        folder = Path(place[1]) if place[:1] == ("projects",) else context.folder
        names = [name for name, value in entries.items() if value is not None]
        # Disabled servers are imported disabled: a person may enable them later.
        # Around them, in other files, and in Claude Code's part for the project in the file of the home directory.
        above = [value_at(document, place[:level]) for level in range(len(place))]
        of_project = [value_at(each, ("projects", str(folder))) for each in beside] if folder else []
        gone = denied_servers(around, names)
        off = switched_off(map(as_object, (*above, *beside, *of_project)), in_project=folder is not None)
        if of.client.key == "gemini-cli":
            off |= gemini_off(beside, names)
        for name in names:
            read = read_entry(name, entries[name], of.client, replace(context, folder=folder)).restricted(listed[name])
            denials = read.denials
            if of.client.key == "opencode":
                denials = denials.narrowed(opencode_rules(document, name))
            denials, may = with_rules(denials, name, rules)
            if name in gone or not may:
                denials = denials.narrowed(Denials(denied=("*",)))
                read = read.unused(Use.FORBIDDEN)
            elif name in off:
                read = read.unused(Use.OFF)
            yield FoundServer(name, of.client, of.file, (*place, name), replace(read, denials=denials))


def _places(document: JsonObject, client: Client) -> Iterator[tuple[tuple[str, ...], JsonObject, JsonObject]]:
    """Yield each path of keys under which there are servers, the servers, and the object that says who may use them."""
    for place in client.places:
        if "*" not in place:
            value = _at(document, place)
            if value and not (place == ("mcp",) and _has_servers_below(value)):
                yield place, value, document
            continue
        above, _, below = place
        for name, project in as_object(document.get(above)).items():
            value = _at(as_object(project), (below,))
            if value:
                yield (above, name, below), value, as_object(project)


def _has_servers_below(value: JsonObject) -> bool:
    """Whether servers stand one level further down, under ``servers``."""
    inner = as_object(value.get("servers"))
    return bool(inner) and not any(key in inner for key in ("command", "url", "type"))


def _at(document: JsonObject, place: tuple[str, ...]) -> JsonObject:
    value = value_at(document, place)
    if isinstance(value, list):  # Continue's list, whose entries have names of their own
        items = [as_object(item) for item in cast("list[Any]", value)]
        return {str(item.get("name") or f"server-{number}"): item for number, item in enumerate(items, 1)}
    return as_object(value)


def _as_its_client_reads(problems: list[Problem]) -> Iterator[Problem]:
    """Yield the problems of a file; a repeated key counts as it does for the client."""
    for problem in problems:
        if problem.reason == "is given twice":
            yield Problem(problem.path, "is given twice", "the last one counts, as for its client")
        else:
            yield problem
