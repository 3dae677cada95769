"""Learning from use: which call after a search is a lesson, for whom, and how it takes effect (R218, ADR 49)."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Never

import anyio
import anyio.to_thread

from toolcrib.base.errors import StoreError
from toolcrib.base.model import SearchType
from toolcrib.base.signals import ChangeSignal
from toolcrib.base.text import spelling_key
from toolcrib.config.settings import Settings
from toolcrib.policy.rules import Policy
from toolcrib.policy.sessions import PastSearch, Session
from toolcrib.policy.state import StoredVocabularies, Vocabularies, group_key, learner_key, with_lesson
from toolcrib.search.engine import separate
from toolcrib.search.english import stem
from toolcrib.search.learned_words import NOTHING_LEARNT, Lesson, Vocabulary, learnable

if TYPE_CHECKING:
    from toolcrib.catalog.tool_search import SearchAnswer

_SOON_S = 300.0
"""Maximum time from a search to a call that it may explain, in seconds."""

FOUND, NOT_FOUND = 1.0, 0.5
"""The weight of a lesson about a tool that the search found, and about another, which may serve another purpose."""

_LOOK_EVERY_S = 0.25
"""Minimum interval between writes of lessons and checks for other processes' changes, in seconds."""

_OPEN_MAX = 5
"""Recent searches of a session that a call may refer to: a model may search for several steps before it calls."""

_UNWRITTEN_MAX = 1000
"""Maximum number of lessons that wait for a file that cannot be written."""

_log = logging.getLogger(__name__)


class Learning:
    """The known vocabularies, and how lessons are added. ``now`` returns seconds since the epoch.

    A lesson counts at once; it is written soon. If the config disables learning, nothing is learnt and no lesson
    counts.
    """

    def __init__(self, settings: Settings, policy: Policy, kept: StoredVocabularies, now: Callable[[], float]) -> None:
        section = settings.toolcrib.tool_search
        self._enabled, self._shared = section.learn, section.learn_shared
        self._redactor, self._policy = settings.redactor, policy
        self._kept, self._now = kept, now
        self._known: Vocabularies = {}
        self._version: tuple[int, object] | None = None
        self._unwritten: list[tuple[str, Lesson]] = []
        self._work = ChangeSignal()

    def open(self) -> None:
        """Read the stored lessons. Blocks."""
        if self._enabled:
            self._known = self._read() or {}

    def vocabulary(self, session: Session) -> Vocabulary:
        """Return the vocabulary for searches of a session."""
        if not self._enabled:
            return NOTHING_LEARNT
        self._work.event.set()  # another process may have added or deleted lessons
        return self._known.get(self._learner(session), NOTHING_LEARNT)

    def record_search(self, session: Session, answer: "SearchAnswer", told: str) -> None:
        """Record a search. ``told`` is its query without what the caller may not know."""
        if not self._enabled:
            return
        is_one = answer.effective is SearchType.FTS and len(separate(answer.query)) == 1
        is_named = bool(answer.hits) and answer.hits[0].match_type is SearchType.EXACT
        found = tuple(hit.tool.public_name for hit in answer.hits)
        # The next call may refer to it even if it teaches nothing.
        query = answer.query if is_one and not is_named else ""
        session.history.asked = (*session.history.asked, PastSearch(query, told, found, self._now()))[-_OPEN_MAX:]

    def record_call(self, session: Session, name: str, asked: tuple[PastSearch, ...]) -> None:
        """Record a successful call; ``asked`` are the searches that no call had settled when it began.

        The first call soon after a search teaches, unless it was of the first hit or referred to an earlier search.
        """
        now, still_open = self._now(), session.history.asked
        asked = tuple(each for each in asked if each in still_open and 0 <= now - each.at <= _SOON_S)
        settled = _settled(asked, name)
        session.history.asked = tuple(each for each in still_open if each not in settled)
        if not self._enabled or not settled or settled is not asked or name in asked[-1].found[:1]:
            return
        # The last search is what the call answers; those before it were other attempts.
        words = self._words(asked[-1])
        if not words:
            return
        lesson = Lesson(words, name, FOUND if name in asked[-1].found else NOT_FOUND, now)
        learner = self._learner(session)
        self._known = with_lesson(self._known, learner, lesson)
        # Bounded: on a disk that stays full the list would grow for the life of the process.
        if len(self._unwritten) < _UNWRITTEN_MAX:
            self._unwritten.append((learner, lesson))
        self._work.event.set()

    async def keep(self) -> Never:
        """Write lessons as they arrive, and read those of other processes."""
        while True:
            await self._work.wait()
            lessons = [*self._unwritten]
            # Written only now: if cancelled earlier, they are left to :meth:`flush`.
            if await anyio.to_thread.run_sync(self._is_written, lessons):
                del self._unwritten[: len(lessons)]
            known = await anyio.to_thread.run_sync(self._read)
            if known is not None:
                for learner, lesson in self._unwritten:  # added meanwhile, or not written yet
                    known = with_lesson(known, learner, lesson)
                self._known = known
            await anyio.sleep(_LOOK_EVERY_S)

    def flush(self) -> None:
        """Write lessons that are not written yet. Blocks."""
        self._is_written(self._unwritten)
        self._unwritten = []

    def _is_written(self, lessons: list[tuple[str, Lesson]]) -> bool:
        """Write lessons; return whether that succeeded. Blocks."""
        try:
            if lessons:
                self._kept.teach(lessons)
        except StoreError as error:  # they still count in this process, and the next attempt writes them
            _log.warning("what use has taught could not be kept: %s %s", error, error.detail)
            return False
        return True

    def _read(self) -> Vocabularies | None:
        """Return the vocabularies if anybody has written since the last time, else None. Blocks."""
        try:
            version = self._kept.version()
            if version == self._version:
                return None
            known = self._kept.all()
        except StoreError as error:  # the next attempt reads it
            _log.warning("what use has taught could not be read: %s %s", error, error.detail)
            return None
        self._version = version
        return known

    def _words(self, asked: PastSearch) -> tuple[str, ...]:
        """Return the words that a search may teach: no part of a secret, and nothing that the caller may not know."""
        # Of both texts, because redaction marks are words too.
        allowed = {*learnable(self._redactor.redact(asked.told), stem, self._is_secret)}
        return tuple(word for word in learnable(asked.query, stem) if word in allowed)

    def _is_secret(self, word: str) -> bool:
        # Ignoring case and separators, so that a secret typed as words is recognised.
        return self._redactor.knows(lambda secret: word in spelling_key(secret))

    def _learner(self, session: Session) -> str:
        # Callers with different tools share nothing: words of hidden tools would evict others.
        return group_key(self._policy.matching_rules(session.caller)) if self._shared else learner_key(session.caller)


def _settled(asked: tuple[PastSearch, ...], name: str) -> tuple[PastSearch, ...]:
    """Return the searches that a call of ``name`` settles: all, or those up to the earlier one it refers to.

    It refers to an earlier one that has the tool first, or has it while the last one does not; never if the last one
    has it first.
    """
    if asked and name in asked[-1].found[:1]:
        return asked
    for end in range(len(asked) - 1, 0, -1):
        found = asked[end - 1].found
        if name in found[:1] or (name in found and name not in asked[-1].found):
            return asked[:end]
    return asked
