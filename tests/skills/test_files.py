"""Reading and listing what lies inside a skill's folder."""

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from toolcrib.base.errors import UnknownSkill
from toolcrib.config.schema import LimitsSection
from toolcrib.skills.sources.files import Listing, Manifests, list_inside, read_inside

LIMITS = LimitsSection()


@pytest.fixture(params=["descriptors", "paths"], autouse=True)
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run everything as on systems that open files relative to a folder, and as on those that cannot."""
    if request.param == "paths":
        monkeypatch.setattr("toolcrib.skills.sources.files._HAS_DESCRIPTORS", False)
    return request.param


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    folder = tmp_path / "repo/skills/pdf"
    (folder / "scripts/deep").mkdir(parents=True)
    (folder / "SKILL.md").write_bytes(b"# PDF\n")
    (folder / "scripts/fill.py").write_bytes(b"print()\n")
    (folder / "scripts/deep/data.bin").write_bytes(bytes(range(256)))
    return folder


def test_files_are_read_as_they_are(skill: Path):
    assert read_inside(skill, "SKILL.md", 100) == b"# PDF\n"
    assert read_inside(skill, "scripts/deep/data.bin", 256) == bytes(range(256))


def test_an_empty_file_is_a_file(skill: Path):
    (skill / "empty").touch()
    assert read_inside(skill, "empty", 0) == b""


def test_a_file_above_the_limit_is_refused(skill: Path):
    with pytest.raises(UnknownSkill):
        read_inside(skill, "scripts/deep/data.bin", 255)


@pytest.mark.parametrize("name", ["none", "scripts", "..", "../pdf/SKILL.md", "/SKILL.md", "SKILL.md/", "", ".env"])
def test_every_refusal_says_the_same(skill: Path, name: str):
    (skill / ".env").touch()
    with pytest.raises(UnknownSkill) as refused:
        read_inside(skill, name, 100)
    assert str(refused.value) == str(UnknownSkill(name))
    assert refused.value.__cause__ is None


def test_a_refusal_is_short_and_plain(skill: Path):
    with pytest.raises(UnknownSkill) as refused:
        read_inside(skill, "a\x1b\n" + "x" * 10_000, 100)
    assert len(str(refused.value)) < 300
    assert "\x1b" not in str(refused.value)


def test_a_link_is_not_followed_wherever_it_leads(skill: Path, tmp_path: Path):
    (tmp_path / "outside").write_text("secret", encoding="utf-8")
    (skill / "out").symlink_to(tmp_path / "outside")
    (skill / "in").symlink_to("SKILL.md")
    (skill / "folder").symlink_to("scripts")
    for name in ("out", "in", "folder/fill.py"):
        with pytest.raises(UnknownSkill):
            read_inside(skill, name, 100)
    assert list_inside(skill, LIMITS).files == ("SKILL.md", "scripts/deep/data.bin", "scripts/fill.py")


def test_with_a_base_the_folder_itself_must_lie_in_it(skill: Path, tmp_path: Path):
    base = tmp_path / "repo"
    inner, outer = base / "linked", base / "escaped"
    inner.symlink_to(skill)
    outer.symlink_to(tmp_path)
    assert read_inside(skill, "SKILL.md", 100, base=base) == b"# PDF\n"
    assert read_inside(inner, "SKILL.md", 100, base=base) == b"# PDF\n"
    (tmp_path / "SKILL.md").touch()
    with pytest.raises(UnknownSkill):
        read_inside(outer, "SKILL.md", 100, base=base)
    with pytest.raises(UnknownSkill):
        list_inside(outer, LIMITS, base=base)


def test_a_listing_has_every_file_but_hidden_ones_and_what_packagers_leave(skill: Path):
    for name in (".git/config", "node_modules/x/index.js", "__pycache__/a.pyc", "scripts/.env", "assets/a b.txt"):
        (skill / name).parent.mkdir(parents=True, exist_ok=True)
        (skill / name).touch()
    (skill / "back\\slash").touch()
    expected = ("SKILL.md", "assets/a b.txt", "scripts/deep/data.bin", "scripts/fill.py")
    assert list_inside(skill, LIMITS) == Listing(expected, 4, truncated=False)


def test_limits_cut_a_listing_but_never_the_skill_itself(skill: Path):
    (skill / "A.txt").write_bytes(b"x" * 1000)
    few = list_inside(skill, limits(skill_files=2))
    assert few == Listing(("A.txt", "SKILL.md"), 4, truncated=True)
    small = list_inside(skill, limits(skill_files_max_bytes=1024))
    assert small == Listing(("A.txt", "SKILL.md", "scripts/fill.py"), 4, truncated=True)


def limits(**values: Any) -> LimitsSection:
    return LimitsSection(**values)


def test_too_many_entries_end_a_listing(skill: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolcrib.skills.sources.files._ENTRIES_MAX", 2)
    assert list_inside(skill, LIMITS).truncated


def test_a_listing_does_not_go_down_for_ever(skill: Path):
    (skill / "/".join("d" * 20)).mkdir(parents=True)
    assert list_inside(skill, LIMITS).truncated


def test_a_folder_that_is_not_there_is_unknown(tmp_path: Path):
    with pytest.raises(UnknownSkill):
        list_inside(tmp_path / "none", LIMITS)
    with pytest.raises(UnknownSkill):
        Manifests().read(tmp_path / "none", LIMITS)


def test_a_manifest_has_the_digest_and_size_of_every_file(skill: Path):
    manifest = Manifests().read(skill, LIMITS)
    assert {file.path: (file.size, file.digest) for file in manifest.files} == {
        name: (len(data), sha256(data).hexdigest())
        for name in ("SKILL.md", "scripts/deep/data.bin", "scripts/fill.py")
        for data in [(skill / name).read_bytes()]
    }
    assert not manifest.truncated


def test_a_manifest_reads_only_what_has_changed(skill: Path, monkeypatch: pytest.MonkeyPatch):
    manifests = Manifests()
    before = manifests.read(skill, LIMITS)
    read: list[int] = []
    monkeypatch.setattr("toolcrib.skills.sources.files.os.read", lambda fd, size: (read.append(fd), b"")[1])
    assert manifests.read(skill, LIMITS) == before
    assert read == []
    monkeypatch.undo()
    (skill / "scripts/fill.py").write_bytes(b"import os\n")
    after = manifests.read(skill, LIMITS)
    assert [file.path for file in after.files if file not in before.files] == ["scripts/fill.py"]


def test_digests_are_not_kept_without_end(skill: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolcrib.skills.sources.files._DIGESTS_MAX", 2)
    manifests = Manifests()
    assert manifests.read(skill, LIMITS) == manifests.read(skill, LIMITS)
    assert len(manifests._digests) == 2


def test_a_file_that_goes_away_meanwhile_is_not_in_the_manifest(skill: Path, monkeypatch: pytest.MonkeyPatch):
    status_of = os.fstat

    def disturbed(descriptor: int) -> os.stat_result:
        (skill / "SKILL.md").unlink(missing_ok=True)
        return status_of(descriptor)

    (skill / "A").touch()
    monkeypatch.setattr("toolcrib.skills.sources.files.os.fstat", disturbed)
    manifest = Manifests().read(skill, LIMITS)
    assert [file.path for file in manifest.files] == ["A", "scripts/deep/data.bin", "scripts/fill.py"]


def test_no_descriptor_is_left_open(skill: Path):
    before = set(Path("/dev/fd").iterdir())
    for name in ("SKILL.md", "scripts/fill.py", "scripts/none", "scripts"):
        with suppress(UnknownSkill):
            read_inside(skill, name, 100, base=skill.parent)
    list_inside(skill, LIMITS)
    assert set(Path("/dev/fd").iterdir()) == before


@pytest.mark.parametrize("path", ["", "/a", "a//b", "../a", "a/..", ".", "a\\b", "a\0", "a/", "a" * 256, "a/" * 3000])
def test_a_path_that_climbs_or_is_not_plain_is_refused(tmp_path: Path, path: str):
    folder = tmp_path / "skill" / "a"
    folder.mkdir(parents=True)
    for file in (tmp_path / "a", folder / "b", tmp_path / "skill" / "a\\b"):
        file.write_bytes(b"here")
    assert read_inside(tmp_path / "skill", "a/b", 100) == b"here"
    with pytest.raises(UnknownSkill):
        read_inside(tmp_path / "skill", path, 100)


def test_a_path_is_not_decoded(tmp_path: Path):
    file = tmp_path / "references" / "%2e%2e" / "a b.md"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"here")
    assert read_inside(tmp_path, "references/%2e%2e/a b.md", 100) == b"here"
