"""Parses one entry of ``mcpServers``, or says why its server is left out: a mistake in it concerns it alone."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from toolcrib.base.errors import Problem
from toolcrib.base.json_values import as_list, as_object, as_text
from toolcrib.base.model import JsonObject
from toolcrib.config.documents import defects, name_defect
from toolcrib.config.findings import Skipped, join, near_keys, validation_problems
from toolcrib.config.foreign import foreign_entry
from toolcrib.config.schema import ServerEntry

_TYPES = {"stdio": "stdio", "http": "http", "streamablehttp": "http", "sse": "sse"}
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_NOT_IN_HEADER = re.compile(r"[^\x20-\x7e]")
_NOT_IN_URL = re.compile(r"[\x00-\x20\x7f]")

_PLAIN_PLACE = re.compile(r'(?:[\w.\[\]-]|"")*')

_SHOWN_MAX = 3
"""Most mistakes of one entry that are named at once."""

_A_TARGET = 'write {"command": "PROGRAM", "args": []} or {"url": "https://HOST/PATH"}'
_REMEDIES = {
    "command": 'write the name or the path of a program, as text: "npx"',
    "args": 'write a list of texts: ["--port", "80"]',
    "env": 'write an object of texts: {"NAME": "VALUE"}',
    "headers": 'write an object of texts: {"NAME": "VALUE"}',
    "type": "write stdio, http, streamable-http or sse, or remove it: command or url says which",
    "url": "write it whole and without spaces: https://HOST:PORT/PATH, or http://",
}
"""What to write, by the key that has the mistake."""


UNKNOWN_TYPE = Problem("type", "must be stdio, http, streamable-http or sse")
TWO_TARGETS = Problem("", "has a command and a url", "keep one of them")


class LeftOut(Exception):
    """The server of an entry is not used: ``why``, which does not name the server yet."""

    def __init__(self, why: Skipped) -> None:
        super().__init__(why.reason)
        self.why = why


def with_texts(entry: JsonObject) -> JsonObject:
    """Return a written entry with numbers, true and false as the texts that they stand for.

    What is no text even so is empty among ``args``, and stays elsewhere.
    """
    texts: JsonObject = {
        part: {name: as_text(value) for name, value in as_object(entry[part]).items()}
        for part in ("env", "headers")
        if part in entry
    }
    if "args" in entry:
        args = map(as_text, as_list(entry["args"]))
        texts["args"] = [each if isinstance(each, str) else "" for each in args]
    return {**entry, **texts}


def word_of_type(written: object) -> str:
    """Return the type that an entry names, as one word of lower case: ``streamable-http`` is ``streamablehttp``."""
    return written.lower().replace("-", "").replace("_", "") if isinstance(written, str) else ""


def wrong_type(place: str, kind: type) -> Problem:
    """Return that a value is none of the type that it has to be: a list or an object, of texts."""
    reason, like = ("a list", "args") if kind is list else ("an object", "env")
    return Problem(place, f"must be {reason}", _REMEDIES[like])


def entry_defects(key: str, raw: Any, *, is_repeated: bool) -> list[Problem]:
    """Return what makes an entry of no use to any program, each by its place in the entry.

    ``is_repeated``: the file has several of this name.
    """
    name = "must have a name" if not key.strip() else name_defect(key)
    found = [Problem("", name, "name it by letters and digits")] if name else []
    if is_repeated:
        found.append(Problem("", "is given twice", "keep one of them, or give one another name"))
    return [*found, *defects(raw)]


def unusable(faults: Sequence[Problem]) -> Skipped:
    """Return why nothing can be made of an entry with ``faults``, each by its place in it, as the end of a sentence."""
    shown = faults[:_SHOWN_MAX]
    hints = "; ".join(dict.fromkeys(fault.hint or _remedy(fault.path) for fault in shown))
    # Hints of the faults themselves may quote a key.
    remedies = "; ".join(dict.fromkeys(_remedy(fault.path) for fault in shown))
    public = f"{_reason(faults, _public_place)} ({remedies})"
    reason = _reason(faults, _shown_place)
    return Skipped("", reason, hints, is_mistake=True, public=public, is_malformed=True)


def refuse(faults: Iterable[Problem]) -> None:
    """Leave out the server of an entry that has ``faults``, each by its place in the entry.

    Raises:
        LeftOut: there are some.

    """
    if found := list(faults):
        raise LeftOut(unusable(found))


def _reason(faults: Sequence[Problem], place_of: Callable[[str], str]) -> str:
    more = len(faults) - _SHOWN_MAX
    said = dict.fromkeys(f"{place_of(fault.path)} {fault.reason}" for fault in faults[:_SHOWN_MAX])
    return f"cannot be used: {'; '.join((*said, *([f'and {more} more'] if more > 0 else [])))}"


def parse_entry(filled: Any) -> ServerEntry:
    """Return the entry that a value is, its variables filled in, with its type settled.

    What its texts say is not looked at: see ``value_faults``.

    Raises:
        LeftOut: it has not the shape of an entry.

    """
    # Before the schema, whose error would only say that command must be text.
    if foreign := foreign_entry(filled):
        refuse([foreign])
    try:
        entry = ServerEntry.model_validate(filled)
    except ValidationError as error:
        refuse(validation_problems(error, ServerEntry, ""))
        raise
    refuse(_shape_faults(entry, filled))
    return entry.model_copy(update={"type": _type(entry)})


def value_faults(entry: ServerEntry) -> Iterator[Problem]:
    """Yield what is wrong with the values of an entry, each by its place in it."""
    if entry.command is not None and not entry.command.strip():
        yield Problem("command", "must not be empty")
    for name in entry.env or {}:
        if not name or "=" in name:
            yield Problem(join("env", name), "is not a name for a variable", "use letters, digits and _")
    if entry.url is not None and not _is_http_url(entry.url):
        yield Problem("url", "must be a URL like https://host/path")
    for name, value in (entry.headers or {}).items():
        if not _HEADER_NAME.match(name) or _NOT_IN_HEADER.search(value):
            hint = "use letters, digits and - in its name, and one line of ASCII text"
            yield Problem(join("headers", name), "is not a header that can be sent", hint)


def _shown_place(path: str) -> str:
    """Return a place in an entry for its author, without what may be a value there: of ``env.A=secret`` the name."""
    plain = _PLAIN_PLACE.match(path)
    shown = plain[0] if plain else ""
    return (shown if shown == path else f"{shown}…") or "it"


def _public_place(path: str) -> str:
    """Return a place in an entry without any name that its author has chosen."""
    key = _key(path)
    if key not in ServerEntry.model_fields:
        return "a key of it" if path else "it"
    return key if path == key else f"{key}.…"


def _key(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


def _remedy(path: str) -> str:
    """Return what to write at a place in an entry."""
    return _REMEDIES.get(_key(path), "write a text in quotes, or remove it") if path else _A_TARGET


def _shape_faults(entry: ServerEntry, filled: Any) -> Iterator[Problem]:
    """Yield what contradicts itself in an entry, or is missing."""

    def near(*targets: str) -> str:
        """Return which keys may be those that are missing. What may be a value in the place of a key is none."""
        unknown = [key for key in as_object(filled) if key not in ServerEntry.model_fields]
        return near_keys(filter(_PLAIN_PLACE.fullmatch, unknown), targets, {})

    kind = _type(entry)
    if kind is None:
        yield UNKNOWN_TYPE
    elif entry.command is None and entry.url is None:
        yield Problem("", "needs a command or a url", near("command", "url"))
    elif entry.command is not None and entry.url is not None:
        yield TWO_TARGETS
    elif (kind == "stdio") != (entry.command is not None):
        key, needed = ("command", "a command") if kind == "stdio" else ("url", "a url")
        hint = near(key) or f"remove type, or write {needed} instead"
        yield Problem("type", f"is {kind}, which needs {needed}", hint)


def _type(entry: ServerEntry) -> str | None:
    """Return ``stdio``, ``http`` or ``sse``; None where the entry names another type."""
    # An empty one says nothing, and is what a variable without a value leaves.
    if not entry.type:
        return "http" if entry.command is None else "stdio"
    return _TYPES.get(word_of_type(entry.type))


def _is_http_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and port_is_fine and not _NOT_IN_URL.search(url)
