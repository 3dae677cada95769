"""What is built from the source holds the core pack, and an installed copy finds it."""

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "packs" / "core"

FIND = """
import json
from pathlib import Path
import toolcrib
from toolcrib.config.loading import load
from toolcrib.skills.sources.roots import find_roots

first = find_roots(load(None, {}, Path.cwd())).roots[0]
print(json.dumps([toolcrib.__file__, first.source, first.scope.mode, str(first.folder)]))
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, and the wheel out of it, as an installer does."""
    folder = tmp_path_factory.mktemp("dist")
    _build(ROOT, folder, "sdist")
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder / "source", filter="data")
    _build(next((folder / "source").iterdir()), folder, "wheel")
    return next(folder.glob("*.whl"))


def _build(source: Path, target: Path, kind: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(target)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=60)


def test_the_wheel_holds_every_file_of_the_core_pack(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name: archive.read(name) for name in archive.namelist() if name.startswith("toolcrib/packs/")}
    ours = {
        f"toolcrib/packs/core/{path.relative_to(CORE).as_posix()}": path.read_bytes()
        for path in CORE.rglob("*")
        if path.is_file()
    }
    assert ours
    assert packed == ours


def test_an_installed_copy_finds_the_core_pack_in_itself(wheel: Path, tmp_path: Path):
    installed = (tmp_path / "installed").resolve()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    code = f"import sys; sys.path.insert(0, {str(installed)!r})\n{FIND}"
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60
    )
    module, source, scope, folder = json.loads(answer.stdout)
    assert Path(module).is_relative_to(installed)
    assert (source, scope) == ("pack/core", "global")
    assert Path(folder) == installed / "toolcrib" / "packs" / "core"
    assert sum(path.is_file() for path in Path(folder).rglob("*.skill.*")) > 10
