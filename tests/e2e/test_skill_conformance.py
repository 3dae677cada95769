"""The official conformance suite for skills (SEP-2640) against ``toolcrib serve``: every check, none skipped."""

from pathlib import Path

import pytest
from rooting import write
from shelving import put

from conformance.suites import statuses
from e2e.crib import served_over_http, write_config
from e2e.npm import Npm

pytestmark = pytest.mark.anyio

CHECKS = {"sep-2640-skills-enumeration": 32, "sep-2640-skills-manifest": 6, "sep-2640-skills-directory": 7}
"""Scenarios, and how many checks each has at least."""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Write skills on more than one page; the first of them has a folder in it, which one check needs."""
    first = put(tmp_path / "skills", "a-form", "Fills in forms.", license="MIT", metadata={"version": "1.0"}).parent
    write(first, "references/fields.md", "# Fields\n")
    write(first, "scripts/deep/run.py", "print(1)\n")
    write(first, "pixel.png").write_bytes(bytes(range(256)))
    put(first / "kit", "nested-form")
    for number in range(60):
        put(tmp_path / "skills", f"form-{number}", released="2026-01-02")
    write(tmp_path / "skills", "lenient/SKILL.md", "---\nname: Other\ndescription: Use it: now\n---\nBody.\n")
    return write_config(tmp_path, {}, skills={"discover": [], "skill_dirs": ["skills"]})


async def test_every_check_for_skills_passes(npm: Npm, tmp_path: Path, config: Path):
    async with served_over_http(config, "--listing", "auto") as url:
        for scenario, least in CHECKS.items():
            command = npm.conformance(
                "server", "--url", url, "--scenario", scenario, "--spec-version", "2026-07-28", "--force"
            )
            done = await statuses(command)
            assert {name: status for name, status in done.items() if status != "SUCCESS"} == {}
            assert len(done) >= least
