"""docs/configuration.md, docs/events.md and docs/commands.md say what the code says."""

import runpy
from pathlib import Path
from typing import Any

import pytest

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
