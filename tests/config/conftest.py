"""A config directory, a working directory and an environment of the test's own."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from toolcrib.config.loading import load
from toolcrib.config.settings import Settings

Load = Callable[..., Settings]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {
        "HOME": str(tmp_path / "home"),
        "XDG_CONFIG_HOME": str(tmp_path / "etc"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


@pytest.fixture
def load_text(tmp_path: Path, environ: dict[str, str]) -> Load:
    """Load a text as a config file of the given name, with more variables in the environment."""

    def run(text: str, name: str = "crib.json", **variables: str) -> Settings:
        file = tmp_path / "project" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return load(file, {**environ, **variables}, tmp_path)

    return run


@pytest.fixture
def load_document(load_text: Load) -> Load:
    """Load an object as a JSON config file."""

    def run(document: Mapping[str, Any], **variables: str) -> Settings:
        return load_text(json.dumps(document), **variables)

    return run


@pytest.fixture
def load_server(load_document: Load) -> Load:
    """Load one entry under the key ``it``, with its options and the rest of ``toolcrib``."""

    def run(
        entry: Any, options: Mapping[str, Any] | None = None, *, toolcrib: Any = None, **variables: str
    ) -> Settings:
        section = {"servers": {"it": options or {}}, **(toolcrib or {})}
        return load_document({"mcpServers": {"it": entry}, "toolcrib": section}, **variables)

    return run
