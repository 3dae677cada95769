"""Rewrite what docs/ has from the code: tables of keys and events, schemas of answers; ``--check`` says what is stale.

Knows how the config's schema, the kinds of events and the built-in tools' answers are written down; never knows what a
key, an event or a tool does. ``python_reference.py`` describes what a Python program imports.
"""

import ast
import inspect
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

import python_reference
from pydantic import BaseModel

from toolcrib.config import schema
from toolcrib.config import schema as auth_schema
from toolcrib.config import schema as http_schema
from toolcrib.config import schema as policy_schema
from toolcrib.config import schema as skills_schema
from toolcrib.config import schema as tool_search_schema
from toolcrib.events import kinds
from toolcrib.server.builtin.registry import BUILTINS

DOCS = Path(__file__).parent.parent / "docs"
BEGIN, END = "<!-- begin, written by scripts/reference_tables.py -->", "<!-- end -->"
REFERENCE = re.compile(r" \(R\d+\)")
LIST_OF = re.compile(r"(?:dict\[str, )?tuple\[")
PLAIN_TYPES = {
    "str": "text",
    "str | None": "text or null",
    "bool": "true, false",
    "int": "whole number",
    "int | None": "whole number or null",
    "Sequence[str]": "list of text",
    "Mapping[str, object]": "object",
}
WORDS = {
    "string": "text",
    "boolean": "true, false",
    "integer": "whole number",
    "number": "number",
    "null": "null",
}


def meanings(*modules: ModuleType) -> dict[str, dict[str, str]]:
    """Return the text under each key or field in the source of some modules, by class and key."""
    found: dict[str, dict[str, str]] = {}
    for module in modules:
        for model in ast.parse(inspect.getsource(module)).body:
            if isinstance(model, ast.ClassDef):
                pairs = zip(model.body, model.body[1:], strict=False)
                found[model.name] = {key: text for node, after in pairs for key, text in _documented(node, after)}
    return found


def _documented(node: ast.stmt, after: ast.stmt) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
        yield ast.unparse(node.target), str(after.value.value)


def tables() -> str:
    """Return all tables as Markdown, one a section of the config file."""
    texts = meanings(schema, auth_schema, http_schema, policy_schema, skills_schema, tool_search_schema)
    sections = [
        *_sections(schema.ServerEntry, "mcpServers.NAME"),
        *_sections(schema.ToolcribSection, "toolcrib"),
    ]
    return "\n".join(_table(model, path, texts[model.__name__]) for model, path in sections)


def events() -> str:
    """Return a table for each kind of event as Markdown."""
    texts = meanings(kinds)
    found = (kind for kind in vars(kinds).values() if isinstance(kind, type) and issubclass(kind, kinds.Event))
    return "\n".join(_event(kind, texts[kind.__name__]) for kind in found if kind is not kinds.Event)


def _event(kind: type[kinds.Event], texts: dict[str, str]) -> str:
    source = {field.name: _source_of(field.type) for field in fields(kind)}
    rows = [f"| `{name}` | {_annotation(source[name])} | {texts[name]} |" for name in source]
    about = REFERENCE.sub("", inspect.cleandoc(kind.__doc__ or ""))
    head = ["| field | type | meaning |", "|---|---|---|"]
    return "\n".join([f"### `{kind.name}`", "", f"{about} Level `{kind.level}`.", "", *head, *rows, ""])


def _source_of(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    return annotation.__name__ if isinstance(annotation, type) else re.sub(r"\b\w+\.", "", str(annotation))


def _annotation(annotation: str) -> str:
    return PLAIN_TYPES.get(annotation, annotation)


def _sections(model: type[BaseModel], path: str) -> Iterator[tuple[type[BaseModel], str]]:
    yield model, path
    for key, field in model.model_fields.items():
        nested = next(_models(field.annotation), None)
        if nested is not None:
            shape = str(field.annotation)
            mark = ".NAME" if shape.startswith("dict") else ""
            mark += "[]" if LIST_OF.match(shape) else ""
            yield from _sections(nested, f"{path}.{key}{mark}")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in getattr(annotation, "__args__", ()):
        yield from _models(part)


def _table(model: type[BaseModel], path: str, texts: dict[str, str]) -> str:
    whole = model.model_json_schema()
    rows = [
        f"| `{key}` | {_type(spec, whole)} | {_default(spec, key in whole.get('required', ()))} | {texts[key]} |"
        for key, spec in whole["properties"].items()
    ]
    head = ["| key | type | default | meaning |", "|---|---|---|---|"]
    about = REFERENCE.sub("", inspect.cleandoc(model.__doc__ or ""))
    return "\n".join([f"### `{path}`", "", about, "", *head, *rows, ""])


def _default(spec: dict[str, Any], required: bool) -> str:  # noqa: FBT001 - a fact of the row
    if required:
        return "required"
    default = spec.get("default")
    return "" if isinstance(default, dict) and default else f"`{json.dumps(default)}`"


def _type(spec: dict[str, Any], whole: dict[str, Any]) -> str:
    if "$ref" in spec:
        return _type(whole["$defs"][spec["$ref"].rpartition("/")[2]], whole)
    if "anyOf" in spec:
        return " or ".join(_type(choice, whole) for choice in spec["anyOf"])
    if "const" in spec or "enum" in spec:
        return ", ".join(f"`{value}`" for value in spec.get("enum", [spec.get("const")]))
    if spec.get("type") == "array":
        return f"list of {_type(spec['items'], whole)}"
    if spec.get("type") == "object":
        members = spec.get("additionalProperties")
        return f"object of {_type(members, whole)}" if isinstance(members, dict) and members else "object"
    return WORDS.get(spec.get("type", ""), "anything") + _bounds(spec)


def _bounds(spec: dict[str, Any]) -> str:
    least, most = spec.get("minimum"), spec.get("maximum")
    if least is not None and most is not None:
        return f", {least:,} to {most:,}"
    if "exclusiveMinimum" in spec:
        return f" above {spec['exclusiveMinimum']:g}"
    return f" from {least:,}" if least is not None else ""


def page_with(text: str, page: str) -> str:
    """Return ``page`` with ``text`` between the marks."""
    head, _, rest = page.partition(BEGIN)
    return f"{head}{BEGIN}\n\n{text}\n{END}{rest.partition(END)[2]}"


PAGES = {"configuration.md": tables, "events.md": events, "python-reference.md": python_reference.reference}
"""What each page of the docs has between the marks."""


def answer_schemas() -> dict[str, str]:
    """Return the schema of each built-in's structured answer as JSON, by its file under docs/."""
    published = {
        tool.name: {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": tool.name, **tool.answer_schema}
        for tool in BUILTINS
        if tool.answer_schema
    }
    return {f"schemas/{name}.json": json.dumps(schema, indent=2) + "\n" for name, schema in published.items()}


def written() -> dict[str, tuple[str, str]]:
    """Return each file under docs/ that is written from the code, as it is (empty: not there) and as it should be."""
    now = {name: (DOCS / name).read_text(encoding="utf-8") for name in PAGES}
    files = {name: (page, page_with(PAGES[name](), page)) for name, page in now.items()}
    for name, fresh in answer_schemas().items():
        file = DOCS / name
        files[name] = (file.read_text(encoding="utf-8") if file.exists() else "", fresh)
    return files


def main(arguments: list[str]) -> int:
    """Rewrite the files, or check them; return 1 where one was stale and only looked at."""
    stale = {name: fresh for name, (page, fresh) in written().items() if fresh != page}
    for name, fresh in stale.items():
        if "--check" in arguments:
            sys.stderr.write(f"{DOCS / name} is stale: run python scripts/reference_tables.py\n")
        else:
            (DOCS / name).parent.mkdir(exist_ok=True)
            (DOCS / name).write_text(fresh, encoding="utf-8")
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
