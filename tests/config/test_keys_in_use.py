"""No key of the config pretends: what nothing reads is named as such."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

import toolcrib
from toolcrib.config.loading import REASONS
from toolcrib.config.schema import ToolcribSection

PACKAGE = Path(toolcrib.__file__).parent
CONFIG = PACKAGE / "config"

HANDED_ON = {
    ("server_defaults",): "merged into the options of each server by config/servers.py",
    ("http", "max_sessions_per_subject"): "read as sessions_of_one, which knows its default",
}
"""Keys that only the config package reads, because others get them by another name."""


@pytest.mark.slow
def test_every_key_is_read_outside_the_config_package_or_named_as_one_without_effect():
    read = {name for file in PACKAGE.rglob("*.py") if not file.is_relative_to(CONFIG) for name in names_in(file)}
    unread = {path for path in keys(ToolcribSection) if path[-1] not in read}
    assert unread == {*REASONS, *HANDED_ON}


def test_what_only_the_config_package_reads_is_read_there():
    read = {name for file in CONFIG.rglob("*.py") for name in attributes_in(file)}
    assert {path[-1] for path in HANDED_ON} <= read
    assert hasattr(ToolcribSection().http, "sessions_of_one")


@pytest.mark.parametrize(("part", "key"), REASONS)
def test_a_key_without_effect_is_listed_in_the_documentation(part: str, key: str):
    page = (PACKAGE.parents[1] / "docs" / "configuration.md").read_text(encoding="utf-8")
    [row] = [line for line in section_of(page, part).splitlines() if line.startswith(f"| `{key}` |")]
    assert "Without effect" in row


def section_of(page: str, part: str) -> str:
    return page.partition(f"toolcrib.{part}`\n")[2].partition("\n#")[0]


def keys(
    model: type[BaseModel], path: tuple[str, ...] = (), inside: tuple[type, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Yield the path of each key of a section, and of the sections in it."""
    for name, field in model.model_fields.items():
        yield (*path, name)
        for inner in models(field.annotation):
            if inner not in inside:
                yield from keys(inner, (*path, name), (*inside, inner))


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models(part)


def names_in(file: Path) -> Iterator[str]:
    """Yield the attributes that a module reads, and the names that it has as texts, for getattr()."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def attributes_in(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            yield node.attr
