"""The skills of several roots: what one of them lacks, what has changed since the scan, what fails alone."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from toolcrib.base.model import Caller
from toolcrib.policy.state import STATE_SCHEMA, SkillDecisions
from toolcrib.search.semantic import Semantic, SharedModel
from toolcrib.skills import catalog
from toolcrib.skills.index import SKILL_TEXTS, SKILLS_SCHEMA, SkillIndex
from toolcrib.storage.store import Store
from toolcrib.storage.vectors import VectorCache
from worlds import configured


def test_a_skill_that_lacks_a_variable_is_told_of_by_the_name_of_that_variable(tmp_path: Path):
    file = tmp_path / "home/.agents/skills/tidy/SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: tidy\ndescription: Tidy up.\nrequires: [DESK_KEY]\n---\n# Tidy\n")
    settings = configured(tmp_path, {}, {"skills": {"core_pack": False}})
    with Store(settings.skill_cache, SKILLS_SCHEMA) as store, Store(settings.state_file, STATE_SCHEMA) as state:
        skills = catalog.SkillCatalog(settings, SkillIndex(store), SkillDecisions(state), lambda: 0.0)
        skills.refresh(threading.Event())
        [problem] = skills.lacking()
    assert str(problem) == "user/tidy: is hidden: it needs the environment variable DESK_KEY"


def test_only_other_bytes_make_a_file_another_one(tmp_path: Path):
    file = tmp_path / "home/.agents/skills/tidy/SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: tidy\ndescription: Tidy up.\n---\n# Tidy\n")
    settings = configured(tmp_path, {}, {"skills": {"core_pack": False}})
    with Store(settings.skill_cache, SKILLS_SCHEMA) as store, Store(settings.state_file, STATE_SCHEMA) as state:
        skills = catalog.SkillCatalog(settings, SkillIndex(store), SkillDecisions(state), lambda: 0.0)
        skills.refresh(threading.Event())
        before = file.stat()
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000_000))
        assert not skills.freshen(skills.visible(Caller()).skills)
        file.write_text(file.read_text().replace("# Tidy", "# Tidi"))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert skills.freshen(skills.visible(Caller()).skills)
        assert [text.title for text in skills.texts(skills.visible(Caller()).skills).values()] == ["Tidi"]
        file.unlink()
        assert skills.freshen(skills.visible(Caller()).skills)
        assert skills.visible(Caller()).skills == ()


@pytest.mark.parametrize(("look_s", "rest_s"), [(0.0, 1.0), (0.1, 1.0), (0.2, 1.8), (2.0, 18.0)])
def test_what_is_seen_of_files_is_a_second_old_at_most_or_ten_times_a_look(
    tmp_path: Path, look_s: float, rest_s: float
):
    now = [100.0]

    def passing() -> float:
        now[0] += look_s  # as if nothing took time but what lies between two readings of the clock
        return now[0] - look_s

    settings = configured(tmp_path, {}, {"skills": {"core_pack": False}})
    with Store(settings.skill_cache, SKILLS_SCHEMA) as store, Store(settings.state_file, STATE_SCHEMA) as state:
        skills = catalog.SkillCatalog(settings, SkillIndex(store), SkillDecisions(state), lambda: 0.0, passing)
        skills.refresh_if_due(threading.Event())
        ended = now[0] - look_s
        file = tmp_path / "home/.agents/skills/tidy/SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text("---\nname: tidy\ndescription: Tidy up.\n---\n# Tidy\n")
        now[0] = ended + rest_s - 0.01
        skills.refresh_if_due(threading.Event())
        assert skills.visible(Caller()).names == ()
        now[0] = ended + rest_s + 0.01
        skills.refresh_if_due(threading.Event())
        assert skills.visible(Caller()).names == ("tidy",)


def test_a_root_that_cannot_be_scanned_leaves_the_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    file = tmp_path / "home/.agents/skills/tidy/SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: tidy\ndescription: Tidy up a desk.\n---\n# Tidy\n")
    scan = catalog.scan

    def breaks_at_the_core_pack(root: Any, *rest: Any) -> Any:
        if root.is_core:
            raise RuntimeError("a defect")
        return scan(root, *rest)

    monkeypatch.setattr(catalog, "scan", breaks_at_the_core_pack)
    settings = configured(tmp_path, {}, {"skills": {}})
    with Store(settings.skill_cache, SKILLS_SCHEMA) as store, Store(settings.state_file, STATE_SCHEMA) as state:
        skills = catalog.SkillCatalog(settings, SkillIndex(store), SkillDecisions(state), lambda: 0.0)
        assert [load.root.source for load in skills.refresh(threading.Event())] == ["user"]
        assert skills.visible(Caller()).names == ("tidy",)
    assert "pack/core could not be scanned" in caplog.text


def test_vectors_are_made_of_what_a_scan_has_found_changed_and_of_nothing_else(tmp_path: Path):
    pytest.importorskip("numpy", reason="the extra toolcrib[semantic] is not installed")
    encoded: list[str] = []

    class Encoder:
        model_id = "m"

        def encode(self, texts: list[str]) -> Any:
            encoded.extend(texts)
            return [[1.0]] * len(texts)

    folder = tmp_path / "home/.agents/skills"
    for name in ("tidy", "sweep"):
        (folder / name).mkdir(parents=True)
        (folder / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Cleans.\n---\n# {name}\n")
    settings = configured(tmp_path, {}, {"skills": {"core_pack": False}})
    with Store(settings.skill_cache, SKILLS_SCHEMA) as store, Store(settings.state_file, STATE_SCHEMA) as state:
        semantic = Semantic(SharedModel(Encoder), VectorCache(store, SKILL_TEXTS), 0.5)
        skills = catalog.SkillCatalog(
            settings, SkillIndex(store), SkillDecisions(state), lambda: 0.0, embed=semantic.fill
        )
        skills.refresh(threading.Event())
        assert sorted(text.split()[0] for text in encoded) == ["sweep", "tidy", "tool"]
        encoded.clear()
        (folder / "tidy/SKILL.md").write_text("---\nname: tidy\ndescription: Cleans all.\n---\n# tidy\n")
        skills.refresh(threading.Event())
        skills.refresh(threading.Event())
        assert [text.split()[0] for text in encoded] == ["tidy"]
