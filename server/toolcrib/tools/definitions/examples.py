"""Examples of use: where a tool's examples come from, which are shown, and how (R85 to R94).

Knows the sources and their precedence; never knows where the rendered block ends up.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from toolcrib.base.json_values import as_list, as_object, compact
from toolcrib.base.text import one_line, sanitize, truncate
from toolcrib.config.schema import ServerSection, ToolExamplesSection
from toolcrib.model import Example, JsonObject

_TAG_ORDER = ("minimal", "common", "edge-case")
_ARGS_MAX = 2000
_DESCRIPTION_MAX = 200
_TAG_MAX = 64


def collect(
    name: str, definition: JsonObject, options: ServerSection, section: ToolExamplesSection
) -> tuple[Example, ...]:
    """Return the examples to show for the tool ``name`` of a server configured with ``options``.

    The first source that has any wins (R86): the config, ``toolcrib/examples`` or ``examples`` of the definition's
    ``_meta`` (a list of ``{args, description?, tags?}``), ``examples`` of its input schema (a list of arguments).
    Minimal ones come first, then common, then edge cases, then the rest, at most ``max_examples_per_tool``
    (R87, R88). Entries of a downstream's that are malformed or over 2,000 characters are passed over.
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
    return tuple(sorted(examples, key=_rank)[: section.max_examples_per_tool])


def render(examples: Sequence[Example], *, include_descriptions: bool) -> str:
    """Return the block that shows ``examples`` to a model (R89, R90); the empty string for none (R94)."""
    if not examples:
        return ""
    return "\n".join(["Examples:", *_lines(examples, include_descriptions=include_descriptions)])


def describe(description: str, block: str) -> str:
    """Return a tool's description with its block of examples under it."""
    return "\n\n".join(part for part in (description, block) if part)


def _lines(examples: Sequence[Example], *, include_descriptions: bool) -> Iterator[str]:
    for example in examples:
        if include_descriptions and example.description:
            yield f"# {example.description}"
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
    return [_example(args, "", ()) for args in as_list(schema.get("examples")) if _is_showable(args)]


def _is_showable(args: Any) -> bool:
    return isinstance(args, dict) and len(_compact(args)) <= _ARGS_MAX


def _compact(args: Any) -> str:
    return compact(args)


def _example(args: JsonObject, description: Any, tags: Sequence[Any]) -> Example:
    said = truncate(one_line(description), _DESCRIPTION_MAX) if isinstance(description, str) else ""
    kept = [truncate(one_line(tag), _TAG_MAX) for tag in tags if isinstance(tag, str)]
    return Example(args, said, tuple(dict.fromkeys(kept)))
