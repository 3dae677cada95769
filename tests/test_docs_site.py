"""The site of the documents: every page is in it, nothing of it comes from elsewhere, and what it says can be found."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as a person does."""
    pytest.importorskip("zensical", reason="the extra toolcrib[docs] is not installed")
    folder = tmp_path_factory.mktemp("site") / "site"
    command = [str(ROOT / "scripts" / "docs-site"), str(folder)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHON": sys.executable}, timeout=120)
    return folder


def listed(nav: Any) -> list[str]:
    """Return the pages that are named in a navigation."""
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in listed(part)]


def test_the_navigation_has_every_document_a_person_reads():
    config = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    documents = {path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]}
    assert documents <= set(listed(config["project"]["nav"]))


def test_each_document_has_a_page_and_no_page_loads_anything_from_elsewhere(site: Path):
    pages = {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    for document in (ROOT / "docs").rglob("*.md"):
        page = document.relative_to(ROOT).with_suffix(".html").as_posix().replace("README.html", "index.html")
        assert page in pages
    for name, text in pages.items():
        loaded = re.findall(
            r'<(?:script|img|iframe)[^>]*\bsrc="([^"]+)"|<link[^>]*\brel="stylesheet"[^>]*href="([^"]+)"', text
        )
        assert not [address for pair in loaded for address in pair if "//" in address], name


def test_what_an_error_says_is_found(site: Path):
    index = json.loads((site / "search.json").read_text(encoding="utf-8"))
    found = [item for item in index["items"] if "is not a known key" in json.dumps(item)]
    assert any("troubleshooting" in item["location"] for item in found)
