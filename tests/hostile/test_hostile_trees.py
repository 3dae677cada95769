"""Folders of skills that are made to be read for ever: very many files, very large ones, and folders without end."""

import os
import resource
import time
from pathlib import Path

import pytest
from rooting import root_at, write_skill

from toolcrib.config.schema import LimitsSection
from toolcrib.skills.sources.files import Manifests
from toolcrib.skills.sources.scanning import scan

pytestmark = pytest.mark.hostile

LIMITS = LimitsSection()


def test_a_huge_tree_is_scanned_within_bounds(tmp_path: Path, record_property):
    for number in range(1000):
        folder = write_skill(tmp_path, f"s{number}").parent
        for other in range(49):
            os.close(os.open(folder / f"f{other}.txt", os.O_CREAT | os.O_WRONLY))
    for path in ("huge/SKILL.md", "s1/huge.bin"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
        os.truncate(tmp_path / path, 10 * 2**30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    found = scan(root_at(tmp_path), {}, LIMITS)
    manifest = Manifests().read(tmp_path / "s1", LIMITS)
    seconds, grown_kib = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    record_property("worst", f"50,000 files in {seconds:.1f} s of CPU and {grown_kib // 1024} MiB")
    assert sum(len(file.records) for file in found.changed) == 1000
    assert [problem.code for file in found.changed for problem in file.problems] == ["too-large"]
    assert manifest.truncated
    assert len(manifest.files) == 50
    assert seconds < 10
    assert grown_kib < 200 * 1024


@pytest.mark.parametrize("shape", ["wide", "deep", "links"])
def test_folders_without_end_are_left(tmp_path: Path, shape: str):
    if shape == "wide":
        for number in range(5000):
            (tmp_path / f"d{number}/inner").mkdir(parents=True)
    elif shape == "deep":
        (tmp_path / "/".join("d" * 500)).mkdir(parents=True)
    else:
        for number in range(300):
            (tmp_path / f"d{number}").mkdir()
            for other in range(20):
                (tmp_path / f"d{number}" / f"l{other}").symlink_to(f"../d{(number * 7 + other) % 300}")
    began = time.process_time()
    found = scan(root_at(tmp_path), {}, LIMITS)
    assert time.process_time() - began < 10
    expected = {"wide": ["too-many-folders"], "deep": ["too-deep"], "links": []}
    assert [problem.code for problem in found.problems] == expected[shape]
