"""A release can be rehearsed with one command, which says what is wrong before anything is published."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest
from release_rehearsal import WrongError, changes_of, check_links

from toolcrib import __version__

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.full(group="release")
def test_what_is_released_installs_runs_and_has_one_version_number(tmp_path: Path):
    ended = subprocess.run(
        [ROOT / "scripts" / "release-rehearsal"],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert f"git tag --sign v{__version__}" in ended.stdout
    assert "this rehearsal does not" in ended.stdout
    assert list(tmp_path.iterdir()) == []


def test_what_the_registry_of_mcp_servers_is_told_is_valid_and_about_this_package():
    """``registry.schema.json`` has what the registry's schema requires of a server in a package, and its bounds."""
    told = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    jsonschema.validate(told, json.loads((ROOT / "tests" / "registry.schema.json").read_text(encoding="utf-8")))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [package] = told["packages"]
    assert (told["version"], package["version"]) == (__version__, __version__)
    assert (package["registryType"], package["identifier"]) == ("pypi", project["name"])
    assert project["name"] in project["scripts"], "uvx runs the command that is called like the package"
    assert [each["value"] for each in package["packageArguments"]] == ["serve"]
    readme = (ROOT / project["readme"]).read_text(encoding="utf-8")
    assert f"<!-- mcp-name: {told['name']} -->" in readme, "by which the registry knows that the package is its own"


def test_the_change_log_begins_with_the_version_to_release():
    log = "# Changelog\n\n## 1.2.0\n\n### Added\n\n* more\n\n## 1.1.0\n\n* less\n"
    assert changes_of("1.2.0", log) == "### Added\n\n* more"
    for version in ("1.1.0", "1.3.0"):
        with pytest.raises(WrongError, match=f"## {version}"):
            changes_of(version, log)
    with pytest.raises(WrongError):
        changes_of("1.2.0", "# Changelog\n\n## 1.2.0\n\n## 1.1.0\n\n* less\n")
    assert changes_of(__version__, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))


def test_a_document_must_not_link_to_what_is_not_released(tmp_path: Path):
    (tmp_path / "README.md").write_text("[here](#heading), [there](https://example.com), [lost](docs/lost.md)\n")
    with pytest.raises(WrongError, match=r"README.md links to docs/lost.md, which is not in the sdist"):
        check_links(tmp_path)
