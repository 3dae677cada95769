"""The pages of docs/ that are written from the code, and docs/commands.md, say what the code says."""

import re
import runpy
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import python_reference

REPOSITORY = Path(__file__).parent.parent
PAGE = REPOSITORY / "docs" / "configuration.md"
COMMANDS = REPOSITORY / "docs" / "commands.md"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(REPOSITORY / "scripts" / "reference_tables.py"))


def test_the_tables_of_keys_and_events_are_those_of_the_code(script: dict[str, Any]):
    assert script["main"](["--check"]) == 0, "run python scripts/reference_tables.py"


def test_a_stale_table_is_found(script: dict[str, Any]):
    page = PAGE.read_text(encoding="utf-8")
    stale = page.replace("Who may connect", "Who might connect")
    assert stale != page
    assert script["page_with"](script["tables"](), stale) == page


def test_the_reference_for_python_has_every_name_that_a_program_may_import():
    import toolcrib

    page = (REPOSITORY / "docs" / "python-reference.md").read_text(encoding="utf-8")
    for name in toolcrib.__all__:
        assert name.startswith("_") or re.search(rf"^(?:## |\| )`(?:toolcrib\.)?{name}`", page, re.MULTILINE), name


def test_a_signature_a_result_and_what_is_raised_are_shown_as_a_caller_writes_them():
    described = python_reference.described(Example)
    assert "```python\nExample(path: Path, *, limit: int = 8)\n```" in described
    assert "### `Example.find`" in described
    assert "```python\nawait Example.find(query: str) -> tuple[str, ...]\n```" in described
    assert (
        "Raises:\n\n* `ValueError`: there is no such thing, or it has two lines.\n* `KeyError`: another." in described
    )
    assert "```python\n>>> 1 + 1\n2\n```" in described
    assert "async with Example.opened() as int" in described
    assert "```python\nExample.size -> int\n```" in described
    assert "hidden" not in described
    with pytest.raises(TypeError, match="neither a class nor a function"):
        python_reference.described(7)


class Example:
    """Finds ``things`` by :func:`find`.

    >>> 1 + 1
    2
    """

    def __init__(self, path: Path, *, limit: int = 8) -> None:
        """Open a file."""

    async def find(self, query: str) -> tuple[str, ...]:
        """Return what fits.

        Raises:
            ValueError: there is no such thing, or
                it has two lines.
            KeyError: another.

        """
        raise NotImplementedError

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[int]:
        """Open it."""
        yield 1

    @property
    def size(self) -> int:
        """The number of things."""
        return 0

    def _hidden(self) -> None:
        """Nobody calls it."""


def test_every_variable_of_ours_and_every_exit_code_is_on_its_page():
    from toolcrib.cli.output import ExitCode
    from toolcrib.config import launching

    page = PAGE.read_text(encoding="utf-8")
    for name in (*launching.NEEDED, *launching.SAFE_POSIX, *launching.SAFE_WINDOWS):
        assert f"`{name}`" in page
    for name in ("CONFIG", "CACHE_DIR", "STATE_DIR", "TENANT_ID", "PROJECT_ID", "PROFILE", "SESSION_ID", "PARENT"):
        assert f"`TOOLCRIB_{name}`" in page
    commands = COMMANDS.read_text(encoding="utf-8")
    for code in ExitCode:
        assert f"| {code.value} |" in commands
