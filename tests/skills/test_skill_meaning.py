"""Skills are found by meaning too, where a model is there."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from models import load_model, make_model
from skill_builders import Skills, text

from toolcrib.base.errors import ModelUnavailable
from toolcrib.search.engine import SearchSettings
from toolcrib.search.semantic import Semantic, SharedModel
from toolcrib.skills.index import SKILL_TEXTS, SKILLS_SCHEMA, SkillIndex
from toolcrib.skills.search import SkillSearcher
from toolcrib.storage.store import Store
from toolcrib.storage.vectors import VectorCache

SKILLS = (
    text("track-issues", "Files an issue.", tags=("vcs",)),
    text("cook-lunch", "Makes lunch."),
    text("code-review", "Reads code.", body="Unite nothing."),
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make_model(tmp_path / "model")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "skills.db"


@contextmanager
def opened(path: Path, load: Callable[[], Any]) -> Iterator[Skills]:
    with Store(path, SKILLS_SCHEMA) as store:
        index = SkillIndex(store)
        semantic = Semantic(SharedModel(load), VectorCache(store, SKILL_TEXTS), 0.6)
        skills = Skills(store, index, SkillSearcher(index, SearchSettings(semantic=semantic)))
        if not skills.all():
            skills.have(*SKILLS)
        yield skills


def found(skills: Skills, query: str) -> list[str]:
    return [match.document.name for match in skills.search(query).matches]


def test_a_skill_is_found_by_another_word_for_the_same_thing(path: Path, model: Path):
    with opened(path, lambda: load_model(model)) as skills:
        assert found(skills, "bug") == ["track-issues"]
        assert found(skills, "recipe") == ["cook-lunch"]
        assert skills.search("bug").confidence == "low"


def test_a_name_still_comes_first(path: Path, model: Path):
    with opened(path, lambda: load_model(model)) as skills:
        skills.have(text("bug", "Everything else."))
        assert found(skills, "bug") == ["bug", "track-issues"]


def counting(model: Path, encoded: list[str]) -> Callable[[], Any]:
    """Return what loads a model that notes the texts that it encodes."""

    def load() -> Any:
        inner = load_model(model)

        class Counting:
            model_id = inner.model_id

            def encode(self, texts: list[str]) -> Any:
                encoded.extend(texts)
                return inner.encode(texts)

        return Counting()

    return load


def test_copies_of_a_text_are_encoded_once(path: Path, model: Path):
    encoded: list[str] = []
    with Store(path, SKILLS_SCHEMA) as store:
        index = SkillIndex(store)
        skills = Skills(store, index, SkillSearcher(index, SearchSettings()))
        semantic = Semantic(SharedModel(counting(model, encoded)), VectorCache(store, SKILL_TEXTS), 0.6)
        for root in ("r", "other"):
            skills.have(*SKILLS, root=root)
            semantic.fill(root)
        assert (index.count("r"), index.count("other")) == (len(SKILLS), len(SKILLS))
    assert len(encoded) == len(SKILLS) + len(["tool"])


def test_vectors_are_kept_until_the_text_has_changed(path: Path, model: Path):
    encoded: list[str] = []
    load = counting(model, encoded)
    for _ in range(2):
        with opened(path, load) as skills:
            found(skills, "bug")
    assert len(encoded) == len(SKILLS) + 2 * len(["tool", "bug"])
    with opened(path, load) as skills:
        skills.have(text("cook-lunch", "Makes dinner."))
        encoded.clear()
        found(skills, "bug")
        assert encoded == ["tool", "cook-lunch  Makes dinner. ", "bug"]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM vectors").fetchone() == (len(SKILLS),)


def test_without_a_model_words_decide_as_before(path: Path):
    def absent() -> Any:
        raise ModelUnavailable("There is none.")

    with opened(path, absent) as skills:
        assert found(skills, "gripe") == []
        assert found(skills, "lunch") == ["cook-lunch"]


def test_an_index_of_before_gets_its_table_and_keeps_its_skills(path: Path, model: Path):
    with Store(path, SKILLS_SCHEMA) as store:
        index = SkillIndex(store)
        Skills(store, index, SkillSearcher(index, SearchSettings())).have(*SKILLS)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE vectors")
        connection.execute("ALTER TABLE skills DROP COLUMN mentions")
        connection.execute("PRAGMA user_version = 2")
    with opened(path, lambda: load_model(model)) as skills:
        assert skills.store.rebuilt is None
        assert found(skills, "bug") == ["track-issues"]
