"""Examples of use: where a tool's examples come from, which are shown, and how (R85 to R94).

Knows the sources and their precedence; never knows where the rendered block ends up.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from toolcrib.base.json_values import as_list, as_object, compact
from toolcrib.base.model import Example, JsonObject
from toolcrib.base.text import one_line, sanitize, truncate
from toolcrib.config.schema import ServerSection, ToolExamplesSection

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
        if include_descriptions and example.description:
            yield f"# {example.description}"
        # JSON escapes line ends, but not hidden characters.
        yield f"- args: {sanitize(_compact(example.args))}"


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
