"""The arguments of a tool as a person writes them: ``key=value``, ``key:=JSON``, ``@FILE``, or one JSON object."""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject

HELP = "Its arguments: key=value, key:=JSON, @FILE with a JSON object (@- is stdin), or the object itself."

_PAIR = re.compile(r"(?P<key>[^=]*?)(?P<mark>:?=)(?P<value>.*)", re.DOTALL)
_FILE_MAX = 16 * 1024 * 1024
_KINDS: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


@dataclass(slots=True)
class WrittenArguments:
    """What a person wrote. The ``texts`` of ``key=value`` get the type that the tool's schema has for them."""

    values: JsonObject = field(default_factory=dict[str, Any])
    texts: dict[str, str] = field(default_factory=dict[str, str])

    def typed(self, schema: JsonObject) -> JsonObject:
        """Return the arguments: a text is read as JSON if the schema allows no text there, and what is read fits."""
        properties = as_object(schema.get("properties"))
        read = {key: _typed(text, as_object(properties.get(key))) for key, text in self.texts.items()}
        return {**self.values, **read}


def parse_arguments(words: Sequence[str]) -> WrittenArguments:
    """Return what the words say; a later one replaces an earlier one with the same key.

    Raises:
        typer.BadParameter: one is none of these, or its JSON or its file cannot be read.

    """
    written = WrittenArguments()
    for word in words:
        pair = _PAIR.fullmatch(word)
        if word.startswith("@"):
            values = _object(_text(word[1:]), f"what is in {word[1:]}")
        elif word.lstrip().startswith(("{", "[")):
            values = _object(word, f"what begins with {word.lstrip()[0]}")
        elif pair and pair["key"]:
            if pair["mark"] == "=":
                written.values.pop(pair["key"], None)
                written.texts[pair["key"]] = pair["value"]
                continue
            values = {pair["key"]: _json(pair["value"], f"what {pair['key']}:= is given")}
        else:
            raise _wrong(f"{word!r} is neither key=value, key:=JSON, @FILE nor a JSON object")
        for key in values:
            written.texts.pop(key, None)
        written.values.update(values)
    return written


def _typed(text: str, schema: JsonObject) -> Any:
    kinds = _kinds(schema)
    if not kinds or "string" in kinds:
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text
    wanted = tuple(kind for name in kinds for kind in _KINDS.get(name, ()))
    # A bool is an int to Python, and none to JSON.
    fits = isinstance(value, wanted) and (not isinstance(value, bool) or bool in wanted)
    return value if fits else text


def _kinds(schema: JsonObject) -> set[str]:
    """Return the types that a schema allows at its top, in its alternatives too; empty if it says none."""
    given = schema.get("type")
    kinds = {given} if isinstance(given, str) else {each for each in as_list(given) if isinstance(each, str)}
    for word in ("anyOf", "oneOf"):
        for each in as_list(schema.get(word)):
            kinds |= _kinds(as_object(each))
    return kinds


def _object(text: str, what: str) -> JsonObject:
    value = _json(text, what)
    if not isinstance(value, dict):
        raise _wrong(f'{what} must be an object, as {{"key": "value"}}')
    return as_object(value)


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise _wrong(f"{what} is not JSON: {place}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise _wrong(f"{what} is not JSON: {error}") from None


def _text(name: str) -> str:
    try:
        if name == "-":
            return sys.stdin.read(_FILE_MAX)
        with Path(name).expanduser().open(encoding="utf-8") as file:
            return file.read(_FILE_MAX)
    except OSError as error:
        raise _wrong(f"{name or 'the file after @'} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise _wrong(f"{name} is not UTF-8 text") from None


def _wrong(text: str) -> typer.BadParameter:
    return typer.BadParameter(text, param_hint="ARGUMENTS")
