"""Rewrite the tables of keys in docs/configuration.md from the schema, or with ``--check`` say whether they are stale.

Knows how the schema is written down; never knows what a key does.
"""

import ast
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from toolcrib.config import schema, skills_schema

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"
BEGIN, END = "<!-- keys: begin, written by scripts/configuration_tables.py -->", "<!-- keys: end -->"
REFERENCE = re.compile(r" \(R\d+\)")
WORDS = {
    "string": "text",
    "boolean": "true, false",
    "integer": "whole number",
    "number": "number",
    "null": "null",
}


def meanings() -> dict[str, dict[str, str]]:
    """Return the text under each key in the schema's source, by model and key."""
    found: dict[str, dict[str, str]] = {}
    for module in (schema, skills_schema):
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
    texts = meanings()
    sections = [
        *_sections(schema.ServerEntry, "mcpServers.NAME"),
        *_sections(schema.ToolcribSection, "toolcrib"),
    ]
    return "\n".join(_table(model, path, texts[model.__name__]) for model, path in sections)


def _sections(model: type[BaseModel], path: str) -> Iterator[tuple[type[BaseModel], str]]:
    yield model, path
    for key, field in model.model_fields.items():
        nested = next(_models(field.annotation), None)
        if nested is not None:
            shape = str(field.annotation)
            mark = ".NAME" if shape.startswith("dict") else ""
            mark += "[]" if "tuple" in shape else ""
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


def main(arguments: list[str]) -> int:
    """Rewrite the page, or check it; return 1 where it was stale and only looked at."""
    page = PAGE.read_text(encoding="utf-8")
    fresh = page_with(tables(), page)
    if "--check" in arguments:
        if fresh != page:
            sys.stderr.write(f"{PAGE} is stale: run python scripts/configuration_tables.py\n")
        return int(fresh != page)
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
