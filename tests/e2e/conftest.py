"""What tests with real servers share."""

import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Make a repository with one commit."""
    folder = tmp_path / "repository"
    who = ["-c", "user.name=ann", "-c", "user.email=ann@example.com"]
    for arguments in (["init", "-q", folder], ["-C", folder, *who, "commit", "-q", "--allow-empty", "-m", "A start"]):
        subprocess.run(["git", *arguments], check=True, timeout=30)
    return folder
