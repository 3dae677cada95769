"""Makes a downstream's tool definition fit to be listed: repaired if that is safe, refused otherwise."""

import copy
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

from toolcrib.base.json_values import as_list, as_object, compact, json_type, levels
from toolcrib.base.model import Example, JsonObject, Tool
from toolcrib.base.text import marked, one_line, sanitize, split_summary, truncate, unjoined
from toolcrib.catalog.index import Card
from toolcrib.config.schema import ServerSection, ToolExamplesSection, ToolSection

TEXT_MAX = 4000
"""Maximum length of each search text of a tool."""

Path = tuple[str | int, ...]
"""The keys and indexes of a value's place."""

_NO_TEXTS = frozenset(("name", "icons", "execution"))
"""Fields of a definition that contain identifiers, URLs and settings instead of words."""
_SCHEMAS = frozenset(("inputSchema", "outputSchema"))
_NAMED_SCHEMAS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
_VALUES = frozenset(("examples", "example"))
_DATA = frozenset((
    "enum", "const", "default", "pattern", "type", "required", "format", "discriminator", "dependentRequired",
    "contentEncoding", "contentMediaType", "$schema", "$id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor",
    "$recursiveRef", "$vocabulary",
))  # fmt: skip
"""Keywords of a schema whose values are interpreted by programs, and must not be changed."""


def texts_in(definition: JsonObject) -> list[tuple[Path, str]]:
    """Return every text of a definition with its path: titles, descriptions, examples and all others."""
    found: list[tuple[Path, str]] = []
    for key, value in definition.items():
        if key in _SCHEMAS:
            _in_schema(value, (key,), found)
        elif key not in _NO_TEXTS:
            _in_value(value, (key,), found)
    return found


def texts_in_value(value: Any) -> list[tuple[Path, str]]:
    """Return every string of a JSON value that is not a schema, with its path; member names are not included."""
    found: list[tuple[Path, str]] = []
    _in_value(value, (), found)
    return found


def _in_value(value: Any, path: Path, found: list[tuple[Path, str]]) -> None:
    if isinstance(value, str):
        found.append((path, value))
    elif isinstance(value, dict):
        for key, member in cast("JsonObject", value).items():
            _in_value(member, (*path, key), found)
    elif isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value)):
            _in_value(item, (*path, number), found)


def _in_schema(value: Any, path: Path, found: list[tuple[Path, str]]) -> None:
    if isinstance(value, str):
        found.append((path, value))
    elif isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value)):
            _in_schema(item, (*path, number), found)
    elif isinstance(value, dict):
        for key, member in cast("JsonObject", value).items():
            if key not in _DATA:
                _in_member(key, member, (*path, key), found)


def _in_member(key: str, member: Any, path: Path, found: list[tuple[Path, str]]) -> None:
    if isinstance(member, str):  # true of most
        found.append((path, member))
    elif key in _NAMED_SCHEMAS and isinstance(member, dict):
        for name, schema in cast("JsonObject", member).items():
            _in_schema(schema, (*path, name), found)
    elif key in _VALUES:
        _in_value(member, path, found)
    else:
        _in_schema(member, path, found)


def values_in(definition: JsonObject) -> Iterator[str]:
    """Yield the texts among the values that the input and output schema of a definition allow or suggest."""
    for schema in _schemas_in([definition.get(key) for key in _SCHEMAS]):
        yield from _texts([*_allowed(schema), schema.get("default")])


def allowed_in(schema: JsonObject) -> Iterator[str]:
    """Yield the texts among the values that a schema allows."""
    for each in _schemas_in([schema]):
        yield from _texts(_allowed(each))


def _allowed(schema: JsonObject) -> list[Any]:
    return [*as_list(schema.get("enum")), schema.get("const")]


def _texts(values: Iterable[Any]) -> Iterator[str]:
    return (value for value in values if isinstance(value, str))


def without_values(definition: JsonObject, is_gone: Callable[[str], bool]) -> JsonObject:
    """Return a definition whose input schema allows and suggests no value that ``is_gone``.

    An output schema allows anything where it had one of these values, since results pass as they are.
    """
    if not any(map(is_gone, values_in(definition))):
        return definition
    made = copy.deepcopy(definition)
    for key in _SCHEMAS & made.keys():
        for schema in _schemas_in([made[key]]):
            _drop_values(schema, is_gone, is_input=key == "inputSchema")
    return made


def _drop_values(schema: JsonObject, is_gone: Callable[[str], bool], *, is_input: bool) -> None:
    """Drop values from one schema in place, not from those inside of it."""

    def gone(value: Any) -> bool:
        return isinstance(value, str) and is_gone(value)

    values = as_list(schema.get("enum"))
    left = [value for value in values if not gone(value)]
    if gone(schema.get("default")):
        del schema["default"]
    is_const = gone(schema.get("const"))
    if len(left) == len(values) and not is_const:
        return
    schema.pop("enum", None)
    if is_const:
        del schema["const"]
    if is_input and left and not is_const:
        schema["enum"] = left
    elif is_input:
        # No value is left. An empty enum is no valid one, and hosts refuse a whole list because of it.
        schema["not"] = {}


def _schemas_in(schemas: Iterable[Any]) -> Iterator[JsonObject]:
    """Yield every schema among and inside of these, but for names of parameters and the like, which are none."""
    left = list(schemas)
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += cast("list[Any]", value)
        elif isinstance(value, dict):
            schema = cast("JsonObject", value)
            yield schema
            for key, member in schema.items():
                if key in _NAMED_SCHEMAS:
                    left += as_object(member).values()
                elif key not in _DATA and key not in _VALUES:
                    left.append(member)


def prose_of(definition: JsonObject) -> tuple[str, str]:
    """Return the key under which a definition describes its tool, and the description."""
    key = "description" if definition.get("description") else "title"
    return key, definition.get(key) or ""


def said(definition: JsonObject) -> tuple[str, str]:
    """Return the first sentence of a definition's description, and the rest, 4,000 characters in all."""
    _, prose = prose_of(definition)
    return split_summary(prose[:TEXT_MAX])


def with_text(value: Any, path: Path, text: str) -> Any:
    """Return ``value`` with ``text`` at an existing path; unaffected parts are shared.

    Raises:
        LookupError, TypeError: there is no such path.

    """
    if not path:
        return text
    copy = value.copy()
    copy[path[0]] = with_text(value[path[0]], path[1:], text)
    return copy


def sanitized(definition: JsonObject, canonical: str) -> JsonObject:
    """Return a definition, whose canonical JSON is given, with texts free of the characters that a person cannot see.

    Raises:
        DefinitionError: others are left, in names or values without which a call would mean something else.

    """
    if _DELETE not in canonical and not _MAY_BE_UNSEEN.search(canonical):  # true of nearly all definitions
        return definition
    for path, text in texts_in(definition):
        if (clean := sanitize(text)) != text:
            definition = with_text(definition, path, clean)
    refuse_unseen(definition)
    return definition


def refuse_unseen(value: Any) -> None:
    """Let pass a name or a JSON value of which a person can see every character, in names of members too.

    Raises:
        DefinitionError: there is another one; the text says where, and which.

    """
    for path, text in _unseen(value, ()):
        shown = truncate(", ".join(dict.fromkeys(_MARKED.findall(marked(text)))), _PLACE_MAX)
        place = truncate(one_line(".".join(map(str, path))), _PLACE_MAX) or "its name"
        raise DefinitionError(
            f"has characters that a person cannot see in {place} ({shown}), without which a call would be another one"
        )


def refuse_joiners(name: str) -> None:
    """Let pass the name of a tool without joiners: who writes a rule about a name does not see them.

    Raises:
        DefinitionError: it has one.

    """
    if unjoined(name) != name:
        raise DefinitionError("has a joiner in its name, which nobody sees who writes a rule about that name")


def _unseen(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield each string with a character that a person cannot see, with its path; that of a name ends with it."""
    if isinstance(value, str):
        if sanitize(value) != value:
            yield path, value
    elif isinstance(value, dict):
        for key, member in cast("JsonObject", value).items():
            if sanitize(key) != key:
                yield (*path, key), key
            yield from _unseen(member, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value)):
            yield from _unseen(item, (*path, number))


_MAY_BE_UNSEEN, _DELETE = re.compile(r"\\(?:[bfr]|u(?!201|202[0-6]))"), "\x7f"
"""What canonical JSON has for controls, and for what is not ASCII but for dashes and quotation marks."""
_MARKED = re.compile(r"U\+[0-9A-F]{4,6}")
_PLACE_MAX = 80
_TAG_ORDER = ("minimal", "common", "edge-case")
_ARGS_MAX = 2000
_DESCRIPTION_MAX = 200
_TAG_MAX = 64
_CHECKED_MAX = 20
"""Maximum number of examples checked per tool; further ones are not shown."""

Fits = Callable[[JsonObject, JsonObject], bool]
"""Returns whether arguments are valid for an input schema; also true if that cannot be determined in time."""


def collect(
    name: str, definition: JsonObject, options: ServerSection, section: ToolExamplesSection, fits: Fits
) -> tuple[Example, ...]:
    """Return the examples to show for the tool ``name`` of a server configured with ``options``.

    The first source that has any wins (R86): the config, ``toolcrib/examples`` or ``examples`` of the definition's
    ``_meta`` (a list of ``{args, description?, tags?}``), ``examples`` of its input schema (a list of arguments), or
    arguments combined from the ``examples`` of its properties. Minimal ones come first, then common, then edge cases,
    then the rest, at most ``max_examples_per_tool`` (R87, R88). Examples that are invalid for the schema, malformed or,
    if the downstream's, over 2,000 characters are skipped: a wrong example does harm.
    """
    if not section.enabled:
        return ()
    examples = (
        _configured(name, options)
        or _from_meta(definition)
        or (_from_schema(definition) if options.inherit_from_schema else [])
    )
    if section.filter_tags is not None:
        examples = [example for example in examples if set(example.tags) & set(section.filter_tags)]
    schema = as_object(definition.get("inputSchema"))
    # A generator, so that checking stops as soon as enough are valid.
    fitting = (each for each in sorted(examples, key=_rank)[:_CHECKED_MAX] if fits(schema, dict(each.args)))
    return tuple(islice(fitting, section.max_examples_per_tool))


def shortest(examples: Sequence[Example]) -> Example | None:
    """Return the shortest example, the first of several; None if there is none."""
    return min(examples, key=lambda each: len(_compact(each.args)), default=None)


def render(examples: Sequence[Example], *, include_descriptions: bool) -> str:
    """Return the block that shows ``examples`` to a model (R89, R90); the empty string for none (R94)."""
    if not examples:
        return ""
    return "\n".join(["Examples:", *_lines(examples, include_descriptions=include_descriptions)])


def describe(description: str, block: str) -> str:
    """Return a tool's description followed by its block of examples."""
    return "\n\n".join(part for part in (description, block) if part)


def _lines(examples: Sequence[Example], *, include_descriptions: bool) -> Iterator[str]:
    for example in examples:
        # JSON escapes line ends, but not hidden characters.
        yield f"- args: {sanitize(_compact(example.args))}"
        # Indented, as part of its entry: it would else read as one about the next.
        if include_descriptions and example.description:
            yield f"  # {example.description}"


def _rank(example: Example) -> int:
    ranks = [rank for rank, tag in enumerate(_TAG_ORDER) if tag in example.tags]
    return min(ranks, default=len(_TAG_ORDER))


def _configured(name: str, options: ServerSection) -> list[Example]:
    entries = options.tool_examples.get(name, ())
    return [_example(entry.args, entry.description, entry.tags) for entry in entries]


def _from_meta(definition: JsonObject) -> list[Example]:
    meta = as_object(definition.get("_meta"))
    entries = as_list(meta.get("toolcrib/examples")) or as_list(meta.get("examples"))
    return [
        _example(entry["args"], entry.get("description"), as_list(entry.get("tags")))
        for entry in map(as_object, entries)
        if _is_showable(entry.get("args"))
    ]


def _from_schema(definition: JsonObject) -> list[Example]:
    schema = as_object(definition.get("inputSchema"))
    whole = [_example(args, "", ()) for args in as_list(schema.get("examples")) if _is_showable(args)]
    if whole:
        return whole
    args = _from_properties(as_object(schema.get("properties")), as_list(schema.get("required")))
    return [_example(args, "", ())] if args and _is_showable(args) else []


def _from_properties(properties: JsonObject, required: Sequence[Any]) -> JsonObject:
    """Return arguments combined from the examples of properties; none if a required one has no value.

    All required properties are included; if none of them has an example, also the first optional property that has one:
    several optional ones may be mutually exclusive.
    """
    given = {name: as_list(as_object(said).get("examples")) for name, said in properties.items()}
    with_example = [name for name, values in given.items() if values]
    if not with_example:
        return {}
    wanted = [name for name in properties if name in required]
    if not set(wanted) & set(with_example):
        wanted.append(with_example[0])
    args: JsonObject = {}
    for name in wanted:
        said = as_object(properties[name])
        values = given[name] or [said[key] for key in ("const", "default") if key in said] or as_list(said.get("enum"))
        if not values:
            return {}
        args[name] = values[0]
    return args


def _is_showable(args: Any) -> bool:
    return isinstance(args, dict) and len(_compact(args)) <= _ARGS_MAX


def _compact(args: Any) -> str:
    return compact(args)


def _example(args: JsonObject, description: Any, tags: Sequence[Any]) -> Example:
    said = truncate(one_line(description), _DESCRIPTION_MAX) if isinstance(description, str) else ""
    kept = [truncate(one_line(tag), _TAG_MAX) for tag in tags if isinstance(tag, str)]
    return Example(args, said, tuple(dict.fromkeys(kept)))


SOURCE_META = "toolcrib/source"
"""The ``_meta`` key that tells a client where a listed tool comes from (R203)."""


def source_of(tool: Tool, skill: str | None = None) -> JsonObject:
    """Return the origin of a tool: its server, or the skill that makes it available (R203)."""
    if skill is None:
        return {"kind": "server", "owner": tool.server, "tool": tool.name}
    return {"kind": "skill", "owner": skill, "server": tool.server, "tool": tool.name}


ORIGINAL_META = "toolcrib/original"
"""The ``_meta`` key under which the index keeps what a server says itself of a tool that the config words anew."""
_ORIGINALS = ("name", "description", "inputSchema")


def overridden(definition: JsonObject, words: ToolSection) -> JsonObject:
    """Return a definition in the words of the config; it keeps those of the server, which clients are not shown."""
    original = {key: definition[key] for key in _ORIGINALS if key in definition}
    changed = {**definition, "_meta": {**definition.get("_meta", {}), ORIGINAL_META: original}}
    if words.description is not None:
        changed["description"] = words.description
    if words.arguments:
        schema, fixed = definition["inputSchema"], fixed_arguments(words)
        properties = {**as_object(schema.get("properties"))}
        for name, argument in words.arguments.items():
            if name in fixed:
                properties.pop(name, None)
            elif name in properties:
                properties[name] = {**as_object(properties[name]), "default": argument.default}
        required = [name for name in as_list(schema.get("required")) if name not in words.arguments]
        changed["inputSchema"] = {**schema, "properties": properties, "required": required}
    return changed


def fixed_arguments(words: ToolSection | None) -> JsonObject:
    """Return the arguments whose values the config fixes."""
    given = words.arguments.items() if words else ()
    return {name: each.fixed for name, each in given if "fixed" in each.model_fields_set}


def completed(arguments: JsonObject, words: ToolSection | None) -> JsonObject:
    """Return the arguments of a call with those that the config gives it."""
    if words is None or not words.arguments:
        return arguments
    fixed = fixed_arguments(words)
    defaults = {name: each.default for name, each in words.arguments.items() if name not in fixed}
    return {**defaults, **arguments, **fixed}


_REQUIRES_TASK = {"taskSupport": "required"}


def listed_definition(
    tool: Tool, definition: JsonObject, card: Card, section: ToolExamplesSection, skill: str | None = None
) -> JsonObject:
    """Return the downstream's definition, unchanged except for its name, the examples block and the source.

    A tool that requires tasks is listed as one that can run as a task: toolcrib waits for it, for clients without tasks
    (ADR 70), some of which refuse by themselves to call what requires them.
    """
    block = render(card.examples, include_descriptions=section.include_descriptions)
    shown = {
        **definition,
        "name": tool.public_name,
        "_meta": {
            **{key: value for key, value in definition.get("_meta", {}).items() if key != ORIGINAL_META},
            SOURCE_META: source_of(tool, skill),
        },
    }
    if shown.get("execution") == _REQUIRES_TASK:
        shown["execution"] = {"taskSupport": "optional"}
    if block:
        shown["description"] = describe(definition.get("description", ""), block)
    return shown


NAME_MAX = 256
"""Maximum length of a downstream's tool name in characters."""

DEPTH_MAX = 64
"""Maximum nesting depth of a definition; real ones have 16 at most."""

# The specification reserves keys with this prefix.
_RESERVED_META = "io.modelcontextprotocol/"
_UTF8_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_CANONICAL_JSON = json.JSONEncoder(sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
_SURROGATE = "\\ud"
"""The prefix of an escaped surrogate in ASCII JSON, alone or in a pair."""
_HINTS: Mapping[str, type] = {
    "title": str,
    "readOnlyHint": bool,
    "destructiveHint": bool,
    "idempotentHint": bool,
    "openWorldHint": bool,
}
_TOO_DEEP = f"is nested deeper than {DEPTH_MAX} levels"
_THEMES = ("light", "dark")
_TASK_SUPPORT = ("forbidden", "optional", "required")


LISTED_AGAIN = "is listed again, and otherwise; the first is taken"
"""Why an item is refused whose name or address an earlier one of its list has."""


def sharing(public_name: str) -> str:
    """Return why items are refused that share a public name: which is meant could change with each list."""
    return f"shares the public name {public_name} with another one"


class DefinitionError(ValueError):
    """The tool cannot be offered; the text says why."""


def tool_name(item: Any) -> str:
    """Return the name of one item of a ``tools/list``.

    Raises:
        DefinitionError: not an object, or without a usable name.

    """
    if not isinstance(item, dict):
        raise DefinitionError(f"is of type {json_type(item)}, not object")
    name = cast("JsonObject", item).get("name")
    if not isinstance(name, str) or not name:
        raise DefinitionError("has no name")
    if len(name) > NAME_MAX:
        raise DefinitionError(f"has a name of {len(name)} characters; at most {NAME_MAX} are allowed")
    if name.encode("utf-8", "replace").decode() != name:
        raise DefinitionError("has a name that is not valid Unicode")
    return name


def canonical_json(value: JsonObject) -> str:
    """Return the hashed form: ASCII JSON without spaces and with sorted keys.

    Raises:
        ValueError: it contains a number that JSON cannot represent.

    """
    return _CANONICAL_JSON.encode(value)


def listable(raw: JsonObject, max_bytes: int) -> tuple[JsonObject, str]:
    """Return ``raw`` in a form that both protocol eras can list: valid parts unchanged, others repaired or dropped.

    Unknown keys are kept. ``max_bytes`` bounds the whole as JSON. The second value is its canonical JSON.

    Raises:
        DefinitionError: the input schema is not one of an object, or the whole is too deep, too large or not JSON.

    """
    # The protocol requires an input schema, so one is added if the downstream has none; setdefault below keeps it.
    definition: JsonObject = {"inputSchema": _input_schema(raw.get("inputSchema"))}
    for key, value in raw.items():
        kept = _REPAIRS[key](value) if key in _REPAIRS else value
        if kept is not None or key not in _REPAIRS:
            definition.setdefault(key, kept)
    return encodable(definition, max_bytes)


def encodable(definition: JsonObject, max_bytes: int) -> tuple[JsonObject, str]:
    """Return ``definition`` with lone surrogates replaced, so that it can be sent as UTF-8, and its canonical JSON.

    Raises:
        DefinitionError: it is not JSON, too deep, or has more than ``max_bytes`` in UTF-8.

    """
    try:
        canonical = canonical_json(definition)
    except ValueError:
        raise DefinitionError("holds a number that JSON cannot carry") from None
    except RecursionError:
        raise DefinitionError(_TOO_DEEP) from None
    # Most have so few objects and lists that they cannot be too deep.
    if canonical.count("{") + canonical.count("[") > DEPTH_MAX and any(islice(levels(definition), DEPTH_MAX, None)):
        raise DefinitionError(_TOO_DEEP)
    # No character is shorter in ASCII than in UTF-8.
    if len(canonical) <= max_bytes and _SURROGATE not in canonical:
        return definition, canonical
    text = _UTF8_JSON.encode(definition)
    data = text.encode("utf-8", "replace")
    if len(data) > max_bytes:
        raise DefinitionError(f"has {len(data)} bytes; limits.definition_max_bytes is {max_bytes}")
    if data.decode() == text:
        return definition, canonical
    # Only a definition with a lone surrogate differs and has to be decoded again.
    definition = json.loads(data)
    return definition, canonical_json(definition)


def _input_schema(value: Any) -> JsonObject:
    """Return an input schema with ``type: object``. An absent one, like ``true``, allows any arguments."""
    if value is None or value is True:
        return {"type": "object"}
    if not isinstance(value, dict):
        raise DefinitionError(f"has an inputSchema of type {json_type(value)}, not object")
    kind = cast("JsonObject", value).get("type", "object")
    if kind is not None and kind != "object" and "object" not in as_list(kind):
        raise DefinitionError('has an inputSchema whose type is not "object"')
    # The protocol allows no other type here, not even a list that contains it.
    return _schema({**value, "type": "object"})


def _schema(schema: JsonObject) -> JsonObject:
    """Return ``schema`` with the keywords that the wire models inspect made valid."""
    if not isinstance(schema.get("$schema", ""), str):
        schema = _without(schema, "$schema")
    if "properties" in schema:
        declared = as_object(schema["properties"])
        schema = {**schema, "properties": {name: _subschema(value) for name, value in declared.items()}}
    if "required" in schema:
        required = [name for name in as_list(schema["required"]) if isinstance(name, str)]
        schema = {**schema, "required": required}
    return schema


def _subschema(value: Any) -> Any:
    return value if isinstance(value, bool) else as_object(value)


def _output_schema(value: Any) -> JsonObject | None:
    return _schema(cast("JsonObject", value)) if isinstance(value, dict) else None


def valid_text(value: Any) -> str | None:
    """Return ``value`` if it is a text."""
    return value if isinstance(value, str) else None


def _annotations(value: Any) -> JsonObject | None:
    if not isinstance(value, dict):
        return None
    return {key: hint for key, hint in as_object(value).items() if isinstance(hint, _HINTS.get(key, object))}


def valid_icons(value: Any) -> list[JsonObject] | None:
    """Return the icons of a list of icons, if there are any."""
    return [icon for icon in map(as_object, as_list(value)) if _is_icon(icon)] or None


def _is_icon(icon: JsonObject) -> bool:
    sizes = icon.get("sizes", [])
    return (
        isinstance(icon.get("src"), str)
        and isinstance(icon.get("mimeType", ""), str)
        and isinstance(sizes, list)
        and all(isinstance(size, str) for size in as_list(sizes))
        and icon.get("theme", "light") in _THEMES
    )


def _execution(value: Any) -> JsonObject | None:
    return as_object(value) if as_object(value).get("taskSupport") in _TASK_SUPPORT else None


def valid_meta(value: Any) -> JsonObject | None:
    """Return ``_meta`` without the keys that the specification reserves."""
    if not isinstance(value, dict):
        return None
    return {key: held for key, held in as_object(value).items() if not key.startswith(_RESERVED_META)}


def _without(value: JsonObject, key: str) -> JsonObject:
    return {other: held for other, held in value.items() if other != key}


_REPAIRS: Mapping[str, Callable[[Any], Any]] = {
    "inputSchema": _input_schema,
    "outputSchema": _output_schema,
    "title": valid_text,
    "description": valid_text,
    "annotations": _annotations,
    "icons": valid_icons,
    "execution": _execution,
    "_meta": valid_meta,
}
"""Functions that make each known field valid; None drops it."""
