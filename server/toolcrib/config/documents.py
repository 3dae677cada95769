"""Parses a config file into a plain JSON object: JSON, JSON with comments or YAML; other clients' files may be TOML."""

import errno
import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from toolcrib.base.errors import ConfigError, Problem
from toolcrib.base.json_values import DEPTH_MAX, DocumentError, levels, number_of, object_of, repeated_in, with_members
from toolcrib.base.model import JsonObject
from toolcrib.config.findings import join
from toolcrib.config.foreign import import_hint, is_toml

FILE_MAX_BYTES = 4 * 1024 * 1024
FOREIGN_MAX_BYTES = 64 * 1024 * 1024
"""Most that is read of a client's own file: Claude Code keeps its history beside its servers."""
SLOW_MAX_CHARACTERS = 256 * 1024
"""Longest YAML or JSON with comments: their parsers take about a second for every 100,000 characters."""

_TEXT_OR_COMMENT = re.compile(r"""//[^\n]*|/\*(?:[^*]|\*(?!/))*|'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?""", re.DOTALL)
_IS_ABOUT_ESCAPES = re.compile(r"escape|hexa?dec")
"""What the parsers of YAML say of a backslash that begins no escape."""

_ESCAPE = re.compile(r"""\\(?:["'\\/bfnrtuvx0\r\n]|(?P<stray>.))""", re.DOTALL)

_UNCLEAN = "holds a NUL or a character that is not Unicode text"


def read(path: Path) -> tuple[JsonObject, list[Problem]]:
    """Return the object in a config, and its problems that do not depend on the meaning of keys.

    Those in entries of ``mcpServers`` are not among them: each concerns its server alone.

    Raises:
        ConfigError: the file cannot be read, is not of its format, is not an object, or is nested too deeply.

    """
    return _read(path, lambda text: parse(text, path), _defects_around_entries)


def read_any(path: Path) -> tuple[JsonObject, list[Problem]]:
    """Return the object in a file of any client, which may be TOML too and larger, and its problems.

    Raises:
        ConfigError: as of ``read``.

    """
    return _read(path, lambda text: parse_any(text, path), defects, FOREIGN_MAX_BYTES)


def parse(text: str, path: Path) -> Any:
    """Return the value of a text of toolcrib's own formats: YAML by the end of its path, else JSON with comments.

    Raises:
        ValueError: it is not of its format.

    """
    as_yaml = path.suffix.lower() in (".yaml", ".yml")
    is_short = len(text) <= SLOW_MAX_CHARACTERS
    # The slow parsers come after the bound, so that a huge file cannot hold up a start for minutes.
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
        return json.loads(text, object_pairs_hook=object_of, parse_float=number_of)
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
        return tomllib.loads(text, parse_float=number_of)
    except tomllib.TOMLDecodeError as error:
        raise DocumentError(f"is not TOML: {error}") from None


def _read(
    path: Path,
    parsed: Callable[[str], Any],
    found: Callable[[JsonObject], list[Problem]],
    most: int = FILE_MAX_BYTES,
) -> tuple[JsonObject, list[Problem]]:
    try:
        document = parsed(text_of(path, most))
        if not isinstance(document, dict):
            raise DocumentError("must be an object that holds mcpServers, toolcrib, or both")
        whole = cast("JsonObject", document)
        _refuse_deep(whole)
        return whole, found(whole)
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
    with open_file(path) as file:
        # One byte more than allowed tells a file of the maximum size from a larger one.
        raw = file.read(most + 1)
    if len(raw) > most:
        raise DocumentError(f"is larger than {most:,} bytes")
    try:
        # Editors of Windows write a byte order mark, which JSON parsers refuse.
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError(f"is not UTF-8 text: byte {error.start + 1:,}") from None


_DESCRIPTORS = ("/dev/fd", "/proc/self/fd")
"""Folders of what whoever starts us has opened. Other folders of ``/dev`` hold files, as ``/dev/shm`` does."""


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading. What is not one is refused: a pipe in its place would be waited for without end.

    A pipe that the shell makes (``/dev/fd/63``, ``/proc/self/fd/11``) is read: whoever names it has a writer for it.

    Raises:
        OSError: it cannot be opened.

    """
    if str(path.parent) in _DESCRIPTORS or str(path) in ("/dev/stdin", "/dev/null"):
        return path.open("rb")
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, "It is a pipe or a device, not a file")


def _parse_commented(text: str, path: Path) -> Any:
    import json5  # noqa: PLC0415 - most files are plain JSON

    if is_toml(text):
        raise DocumentError(
            "is TOML, as Codex's config.toml is, and toolcrib reads JSON and YAML: of each [mcp_servers.NAME], "
            f"{import_hint(path)}"
        )
    # JSON5 drops such a backslash silently, and a Windows path would point elsewhere.
    if line := _line_of_stray_escape(text):
        raise DocumentError(
            f"is not JSON: line {line} has an invalid backslash escape, as in a Windows path: write \\\\ or /"
        )
    loads = cast("Callable[..., Any]", json5.loads)  # pyright: ignore[reportUnknownMemberType] - not typed
    try:
        return loads(text, object_pairs_hook=object_of, parse_float=number_of)
    except ValueError as error:
        from toolcrib.config.json_faults import json_fault  # noqa: PLC0415 - most files have none

        raise DocumentError(f"is not JSON: {json_fault(text, error)}") from None


def _line_of_stray_escape(text: str) -> int | None:
    """Return the line of the first backslash in a double-quoted text that JSON5 would drop without a word."""
    for token in _TEXT_OR_COMMENT.finditer(text):
        if token[0].startswith('"'):
            for escape in _ESCAPE.finditer(token[0]):
                if escape["stray"]:
                    return text.count("\n", 0, token.start() + escape.start()) + 1
    return None


def defects(value: Any) -> list[Problem]:
    """Return what makes a value of no use to any program: repeated keys, bad text, numbers that are not finite."""
    return list(_defects(value, ""))


def name_defect(key: str) -> str:
    """Return why a key is of no use to any program, as the end of a sentence; empty if it is."""
    return "" if _is_clean(key) else f"has a name that {_UNCLEAN}"


def _defects_around_entries(document: JsonObject) -> list[Problem]:
    is_apart = isinstance(document.get("mcpServers"), dict)
    return defects(with_members(document, {"mcpServers": {}}) if is_apart else document)


def _refuse_deep(document: JsonObject) -> None:
    """Refuse what others cannot walk through.

    Raises:
        RecursionError: nested more than ``DEPTH_MAX`` deep.

    """
    if sum(1 for _ in islice(levels(document), DEPTH_MAX + 1)) > DEPTH_MAX:
        raise RecursionError


def _defects(value: Any, path: str) -> Iterator[Problem]:
    if isinstance(value, dict):
        members = cast("JsonObject", value)
        yield from (Problem(join(path, key), "is given twice", "keep one") for key in repeated_in(members))
        yield from (
            Problem(join(path, key), reason, "name it by letters and digits")
            for key in members
            if (reason := name_defect(key))
        )
        for key, member in members.items():
            yield from _defects(member, join(path, key))
    elif isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value)):
            yield from _defects(item, join(path, number))
    elif isinstance(value, str) and not _is_clean(value):
        yield Problem(path, _UNCLEAN, "remove that character")
    elif isinstance(value, float) and not math.isfinite(value):
        yield Problem(path, "is not a finite number", "write a number, or a text in quotes")


def _is_clean(text: str) -> bool:
    return "\0" not in text and (text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text))
