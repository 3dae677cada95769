"""How what use teaches gets into the file and out of it, while it cannot be written or read or the process ends."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from policy import state_files
from toolcrib.base.errors import StoreError
from toolcrib.base.model import Caller
from toolcrib.catalog.learning import Learning
from toolcrib.config.settings import Settings
from toolcrib.policy.rules import Policy
from toolcrib.policy.sessions import PastSearch, RunActivations, Session
from toolcrib.policy.state import LessonFilter, StoredVocabularies, Vocabularies
from toolcrib.search.learned_words import Lesson
from toolcrib.storage.store import Store
from worlds import configured, settled, until

pytestmark = pytest.mark.anyio

EVENT = "calendar__create_event"
NOW = 1_800_000_000.0


class Kept(StoredVocabularies):
    """Vocabularies in a file that may fail for a while."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.fails = False
        self.failures = 0

    def teach(self, lessons: Sequence[tuple[str, Lesson]]) -> None:
        self._check()
        super().teach(lessons)

    def all(self) -> Vocabularies:
        self._check()
        return super().all()

    def _check(self) -> None:
        if self.fails:
            self.failures += 1
            raise StoreError("No file.")


@pytest.fixture
def kept(tmp_path: Path):
    with state_files.opened(tmp_path / "state.db", Kept) as part:
        yield part


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return configured(tmp_path, {}, {"tool_search": {"learn": True}})


class Learner:
    """Somebody who learns."""

    def __init__(self, settings: Settings, kept: StoredVocabularies) -> None:
        self.learning = Learning(settings, Policy(), kept, lambda: NOW)
        self.session = Session("one", Caller("ann"), RunActivations(), growing=False)
        self.learning.open()

    def learns(self, word: str) -> None:
        self.session.history.asked = (PastSearch(word, word, (), NOW),)
        self.learning.record_call(self.session, EVENT, self.session.history.asked)

    @property
    def known(self) -> set[str]:
        return set(self.learning.vocabulary(self.session).entries)


def words(kept: StoredVocabularies) -> set[str]:
    return {word for vocabulary in kept.all().values() for word in vocabulary.entries}


async def test_what_is_taught_as_the_process_ends_is_written(settings, kept):
    learner = Learner(settings, kept)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(learner.learning.keep)
        await settled()
        learner.learns("standup")
        tasks.cancel_scope.cancel()
    learner.learning.flush()
    assert words(kept) == {"standup"}
    learner.learning.flush()
    [vocabulary] = kept.all().values()
    assert vocabulary.entries["standup"][EVENT].weight == 0.5, "written once"


async def test_what_cannot_be_written_counts_and_is_written_once_it_can_be(settings, kept):
    learner = Learner(settings, kept)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(learner.learning.keep)
        kept.fails = True
        learner.learns("standup")
        await until(lambda: kept.failures > 0)
        kept.fails = False
        learner.learns("retro")
        await until(lambda: words(kept) == {"standup", "retro"})
        assert learner.known == {"standup", "retro"}
        tasks.cancel_scope.cancel()


async def test_what_another_process_has_forgotten_goes_though_it_cannot_be_read_at_first(settings, kept, tmp_path):
    learner = Learner(settings, kept)
    learner.learns("standup")
    learner.learning.flush()
    with state_files.opened(tmp_path / "state.db", StoredVocabularies) as other:
        other.forget(LessonFilter())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(learner.learning.keep)
        kept.fails = True
        assert learner.known == {"standup"}
        await until(lambda: kept.failures > 0)
        kept.fails = False
        await until(lambda: learner.known == set())
        tasks.cancel_scope.cancel()
