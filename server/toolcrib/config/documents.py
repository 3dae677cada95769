"""Parses a config file into a plain JSON object, from JSON, JSON with comments, or YAML."""

import json
import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from toolcrib.base.errors import ConfigError, Problem
from toolcrib.base.json_values import DEPTH_MAX, DocumentError, ObjectWithRepeats, as_object, object_of, value_at
from toolcrib.base.model import JsonObject
from toolcrib.config.findings import join

_RENAME = "rename it to mcpServers"
_PROGRAM = "command is the program alone, args the list of the rest"


@dataclass(frozen=True, slots=True)
class _Shape:
    """A key under which a client keeps its servers by name, and how to write them here."""

    key: str
    client: str
    hint: str


_SHAPES = (
    _Shape("servers", "VS Code", _RENAME),
    _Shape("context_servers", "Zed", f"{_RENAME}; {_PROGRAM}"),
    _Shape("mcp", "opencode", f"{_RENAME}; {_PROGRAM}; environment is env"),
    _Shape("extensions", "Goose", f"{_RENAME}; cmd is command, envs is env, uri is url"),
    _Shape("mcp_servers", "Codex", f"{_RENAME}; http_headers is headers"),
    _Shape("amp.mcpServers", "Amp", _RENAME),
)
_NESTED = _Shape("mcp.servers", "VS Code's settings", "write what is under it as mcpServers")
_PROJECTS = _Shape("projects", "Claude Code, for each folder,", "write the mcpServers of one of them as mcpServers")

_OF_A_SERVER = ("command", "cmd", "url", "uri", "httpUrl", "serverUrl")
"""What an entry of any client's has one of."""

_ADDRESSES = {"httpUrl": "Gemini CLI and Qwen Code", "serverUrl": "Windsurf", "uri": "Goose"}
_MEANINGS = {
    "cmd": "Goose's command",
    "envs": "Goose's env",
    "environment": "opencode's env",
    "envFile": "VS Code's file of variables: write them as env",
    "enabled": "to leave a server out, write disabled: true",
    "http_headers": "Codex's headers",
    "env_http_headers": "Codex's headers: write ${VARIABLE} into headers",
    "bearer_token_env_var": 'Codex\'s token: write headers: {"Authorization": "Bearer ${VARIABLE}"}',
    "requestOptions": "Continue's headers: write headers",
    "transport": "write type: http or sse",
    **{key: f"{client}'s url" for key, client in _ADDRESSES.items()},
}
"""Keys of other clients' entries that toolcrib does not read, and what to write instead."""

_TOML = re.compile(r"^[ \t]*\[(?:mcp_servers|profiles|projects|tools)\b[^\]\n]*\][ \t]*$", re.MULTILINE)


def import_hint(path: Path) -> str:
    """Return the command that takes over the servers of another client's file."""
    return f"`toolcrib import {shlex.quote(str(path))}` imports them"


def foreign_shapes(document: JsonObject, path: Path) -> Iterator[Problem]:
    """Yield a problem for each place where a file without ``mcpServers`` keeps servers as another client does."""
    if document.get("mcpServers"):
        return
    nested = value_at(document, ("mcp", "servers"))
    if _holds_servers(nested):
        yield _problem(_NESTED, path)
    if any(_holds_servers(as_object(each).get("mcpServers")) for each in as_object(document.get("projects")).values()):
        yield _problem(_PROJECTS, path)
    for shape in _SHAPES:
        if _holds_servers(document.get(shape.key)):
            yield _problem(shape, path)


def list_hint(servers: Any) -> str:
    """Return what to do where ``mcpServers`` is not an object; empty where nothing is known of it."""
    return "a list is Continue's: write each entry under its name instead" if isinstance(servers, list) else ""


def foreign_entry(raw: Any, path: str) -> Problem | None:
    """Return what makes an entry of ``mcpServers`` another client's and of no use here; None where it is ours."""
    entry = as_object(raw)
    command = entry.get("command")
    if isinstance(command, list):
        return Problem(join(path, "command"), "is a list, as opencode writes it", _PROGRAM, is_mistake=True)
    if isinstance(command, Mapping):
        return Problem(join(path, "command"), "is an object, as Zed writes it", _PROGRAM, is_mistake=True)
    if command is not None or "url" in entry:
        return None
    for key, client in _ADDRESSES.items():
        if key in entry:
            return Problem(path, f"has {key}, the url of {client}", f"rename {key} to url", is_mistake=True)
    if "cmd" in entry:
        return Problem(path, "has cmd, the command of Goose", "rename cmd to command", is_mistake=True)
    return None


def meanings(entry: JsonObject) -> Mapping[str, str]:
    """Return what keys of an entry mean to other clients, and what to write instead; empty where nothing is lost."""
    harmless = [key for key in entry if "Tools" in key or "_tools" in key]  # foreign_rules has looked at these
    harmless += [] if entry.get("enabled") is False else ["enabled"]
    return {**_MEANINGS, **dict.fromkeys(harmless, "")}


def is_toml(text: str) -> bool:
    """Return whether a text that is no JSON has the tables of Codex's ``config.toml``."""
    return bool(_TOML.search(text))


def _problem(shape: _Shape, path: Path) -> Problem:
    reason = f"is where {shape.client} keeps servers, which toolcrib does not read"
    return Problem(shape.key, reason, f"{import_hint(path)}; or {shape.hint}")


def _holds_servers(value: Any) -> bool:
    entries = (as_object(entry) for entry in as_object(value).values())
    return any(key in entry for entry in entries for key in _OF_A_SERVER)


FILE_MAX_BYTES = 4 * 1024 * 1024
FOREIGN_MAX_BYTES = 64 * 1024 * 1024
"""Most that is read of a client's own file: Claude Code keeps its history beside its servers."""
SLOW_MAX_CHARACTERS = 256 * 1024
"""Longest YAML or JSON with comments: their parsers take about a second for every 100,000 characters."""

_TEXT_OR_COMMENT = re.compile(
    r"""//[^\n]*|/\*(?:[^*]|\*(?!/))*|'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?""",
    re.DOTALL,
)
_IS_ABOUT_ESCAPES = re.compile(r"escape|hexa?dec")
"""What the parsers of YAML say of a backslash that begins no escape."""

_ESCAPE = re.compile(r"""\\(?:["'\\/bfnrtuvx0\r\n]|(?P<stray>.))""", re.DOTALL)

_UNCLEAN = "holds a NUL or a character that is not Unicode text"


def read(path: Path) -> tuple[JsonObject, list[Problem]]:
    """Return the object in the file, and what is wrong with it whatever its keys mean.

    Raises:
        ConfigError: the file cannot be read, is not of its format, is not an object, or is nested too deeply.

    """
    return _read(path, lambda text: parse(text, path))


def read_any(path: Path) -> tuple[JsonObject, list[Problem]]:
    """Return the object in a file of any client, which may be TOML too and larger, and what is wrong with it.

    Raises:
        ConfigError: as of ``read``.

    """
    return _read(path, lambda text: parse_any(text, path), FOREIGN_MAX_BYTES)


def parse(text: str, path: Path) -> Any:
    """Return the value of a text of toolcrib's own formats: YAML by the end of its path, else JSON with comments.

    Raises:
        ValueError: it is not of its format.

    """
    as_yaml = path.suffix.lower() in (".yaml", ".yml")
    is_short = len(text) <= SLOW_MAX_CHARACTERS
    if as_yaml and is_short:
        from toolcrib.base.yaml import parse_yaml  # noqa: PLC0415 - JSON needs no YAML parser

        try:
            return parse_yaml(text)
        except DocumentError as error:
            if _IS_ABOUT_ESCAPES.search(str(error)):
                raise DocumentError(
                    f"{error}; a text with a backslash, as a Windows path, needs 'single quotes'"
                ) from None
            raise
    if as_yaml:
        raise DocumentError(f"is longer than {SLOW_MAX_CHARACTERS:,} characters, the most for YAML")
    try:
        return json.loads(text, object_pairs_hook=object_of)
    except ValueError as error:
        if is_short:
            return _parse_commented(text, path)
        raise DocumentError(f"is not JSON: {error}") from None


def parse_any(text: str, path: Path) -> Any:
    """Return the value of a text in the format that the end of its path or, failing that, its own look tells.

    Raises:
        ValueError: it is not of its format.

    """
    if path.suffix.lower() != ".toml" and not is_toml(text):
        return parse(text, path) if text.strip() else {}
    import tomllib  # noqa: PLC0415 - one client's files

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DocumentError(f"is not TOML: {error}") from None


def _read(path: Path, parsed: Callable[[str], Any], most: int = FILE_MAX_BYTES) -> tuple[JsonObject, list[Problem]]:
    try:
        document = parsed(text_of(path, most))
        if not isinstance(document, dict):
            raise DocumentError("must be an object that holds mcpServers, toolcrib, or both")
        return cast("JsonObject", document), list(_defects(document, ""))
    except RecursionError:
        reason = "is nested too deeply"
    except OSError as error:
        reason = f"cannot be read: {error.strerror or 'it is not a file'}"
    except ValueError as error:
        reason = str(error)
    raise ConfigError(str(path), [Problem("file", reason)])


def text_of(path: Path, most: int = FILE_MAX_BYTES) -> str:
    """Return the text of a file without a byte order mark.

    Raises:
        DocumentError: it has more than ``most`` bytes, or is not UTF-8.
        OSError: it cannot be read.

    """
    with path.open("rb") as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise DocumentError(f"is larger than {most:,} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError(f"is not UTF-8 text: byte {error.start + 1:,}") from None


def _parse_commented(text: str, path: Path) -> Any:
    import json5  # noqa: PLC0415 - most files are plain JSON

    if is_toml(text):
        raise DocumentError(
            "is TOML, as Codex's config.toml is, and toolcrib reads JSON and YAML: of each [mcp_servers.NAME], "
            f"{import_hint(path)}"
        )
    if line := _line_of_stray_escape(text):
        raise DocumentError(
            f"is not JSON: line {line} has an invalid backslash escape, as in a Windows path: write \\\\ or /"
        )
    loads = cast("Callable[..., Any]", json5.loads)  # pyright: ignore[reportUnknownMemberType] - not typed
    try:
        return loads(text, object_pairs_hook=object_of)
    except ValueError as error:
        raise DocumentError(f"is not JSON: {str(error).replace('<string>:', 'line ')}") from None


def _line_of_stray_escape(text: str) -> int | None:
    """Return the line of the first backslash in a double-quoted text that JSON5 would drop without a word."""
    for token in _TEXT_OR_COMMENT.finditer(text):
        if token[0].startswith('"'):
            for escape in _ESCAPE.finditer(token[0]):
                if escape["stray"]:
                    return text.count("\n", 0, token.start() + escape.start()) + 1
    return None


def _defects(value: Any, path: str, depth: int = 0) -> Iterator[Problem]:
    """Yield repeated keys, and text and numbers that no program accepts.

    Raises:
        RecursionError: nested more than ``DEPTH_MAX`` deep.

    """
    if depth > DEPTH_MAX:
        raise RecursionError
    if isinstance(value, ObjectWithRepeats):
        yield from (Problem(join(path, key), "is given twice", "keep one") for key in value.repeated)
    if isinstance(value, dict):
        members = cast("JsonObject", value)
        yield from (Problem(join(path, key), f"its key {_UNCLEAN}") for key in members if not _is_clean(key))
        for key, member in members.items():
            yield from _defects(member, join(path, key), depth + 1)
    elif isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value)):
            yield from _defects(item, join(path, number), depth + 1)
    elif isinstance(value, str) and not _is_clean(value):
        yield Problem(path, _UNCLEAN)
    elif isinstance(value, float) and not math.isfinite(value):
        yield Problem(path, "is not a finite number")


def _is_clean(text: str) -> bool:
    return "\0" not in text and (text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text))
