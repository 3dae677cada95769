"""A program of somebody else, over the installed package: its types hold there too, not only in the repository."""

import ast
import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import toolcrib

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("consumer") / "program.py"


def test_the_program_uses_every_public_name():
    tree = ast.walk(ast.parse(PROGRAM.read_text(encoding="utf-8")))
    used = {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in tree}
    assert used >= set(toolcrib.__all__)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Install what a wheel of the repository has, as pip would, beside what this Python has."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True, timeout=60)
    site = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        wheel.extractall(site)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return tmp_path / "venv" / "bin" / "python"


@pytest.mark.slow
def test_a_strict_type_checker_accepts_it_over_the_installed_package(installed: Path, tmp_path: Path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "program.py").write_bytes(PROGRAM.read_bytes())
    # What shows that types are read at all.
    wrong = "from toolcrib import Crib\n\n\nasync def search(crib: Crib) -> int:\n    return await crib.search(7)\n"
    (project / "wrong.py").write_text(wrong, encoding="utf-8")
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "include": ["."]}
    (project / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", str(installed), "--outputjson"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    report = json.loads(checked.stdout)
    assert report["summary"]["filesAnalyzed"] == 2
    found = [(Path(item["file"]).name, item["rule"]) for item in report["generalDiagnostics"]]
    assert found == [("wrong.py", "reportReturnType"), ("wrong.py", "reportArgumentType")]


@pytest.mark.slow
def test_it_runs_over_the_installed_package(installed: Path, tmp_path: Path):
    run = "import anyio, program, toolcrib; anyio.run(program.main); print(toolcrib.__file__)"
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [installed, "-B", "-c", run],
        cwd=PROGRAM.parent,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "Rain in Oslo, for 1 days." in done.stdout
    assert done.stdout.splitlines()[-1].startswith(str(tmp_path))
    assert done.stderr == ""
