"""``skill_get``: from the skills that a model names to texts within its budget.

Knows what a session was sent before, and how much may be said; never knows which skills a caller may see.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape

from toolcrib.access.sessions import Session
from toolcrib.base.text import one_line, truncate
from toolcrib.config.settings import Settings
from toolcrib.errors import UnknownSkill
from toolcrib.model import Skill, SkillText
from toolcrib.skills.catalog import Home, SkillCatalog
from toolcrib.skills.identity import skill_uri
from toolcrib.skills.naming import Wanted
from toolcrib.skills.requests import GetAnswer, GetRequest, GivenSkill
from toolcrib.skills.sent import was_sent
from toolcrib.skills.sources.files import list_inside
from toolcrib.skills.text.cleaning import Cleaner
from toolcrib.skills.text.rendering import Sheet, estimator, inert, inert_line, injection, raw
from toolcrib.tools.mentions import hint

DIGEST_SHOWN = 12
"""Hex digits of a digest in a text that a model reads."""

_TAIL_SHARE = 4
"""What is said beside the skills may take a quarter of the budget."""
_NAME_MAX = 100


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A skill ready to be rendered."""

    given: GivenSkill
    sheet: Sheet
    mentioned: tuple[str, ...]


class Giver:
    """Makes texts of skills for one configuration. What it reads may block."""

    def __init__(self, settings: Settings, catalog: SkillCatalog) -> None:
        self._catalog, self._limits = catalog, settings.toolcrib.limits
        # With tokens there are callers on other machines, who have no use for paths of this one.
        self._exposes_paths = settings.toolcrib.skills.expose_paths and not settings.toolcrib.http.tokens
        self._count = estimator(settings.toolcrib.skills.estimator)

    def estimate(self, text: str) -> int:
        """Return the estimated tokens of ``text`` as JSON carries it, so that both forms of an answer keep a budget."""
        return self._count(json.dumps(text, ensure_ascii=False)[1:-1])

    def give(self, wanted: Wanted, request: GetRequest, cleaner: Cleaner, session: Session) -> GetAnswer:
        """Return the skills within ``request.max_tokens``; what this session has already is only named (R177)."""
        loaded = self._loaded(wanted.skills, cleaner, session)
        share = request.max_tokens // max(len(loaded), 1)
        known = [] if request.force else [each for each in loaded if was_sent(session, each.given, request, share)]
        fresh = [each for each in loaded if each not in known]
        tail = self._tail(wanted, known, fresh, request.max_tokens // (_TAIL_SHARE if fresh else 1))
        left = request.max_tokens - self.estimate(f"{tail}\n\n")
        render = raw if request.format == "raw" else injection
        rendered = render([each.sheet for each in fresh], left, self.estimate)
        portions = {"full": request.max_tokens, "compressed": request.max_tokens // max(len(fresh), 1)}
        shares = {
            each.given.skill.row: portions.get(outcome.included, 0)
            for each, outcome in zip(fresh, rendered.outcomes, strict=True)
        }
        return GetAnswer(
            skills=tuple(replace(each.given, share=shares.get(each.given.skill.row, 0)) for each in loaded),
            formatted="\n\n".join(filter(None, [rendered.text, tail])),
            not_found=wanted.not_found,
            ambiguous=wanted.ambiguous,
        )

    def give_file(self, wanted: Wanted, path: str, content: str, cleaner: Cleaner, session: Session) -> GetAnswer:
        """Return the one skill that is wanted with ``content``, which is its file ``path``, in place of its text."""
        [loaded] = self._loaded(wanted.skills, cleaner, session)
        uri = skill_uri(loaded.given.skill.source, loaded.given.skill.folder, path)
        head = f'<skill name="{_attribute(loaded.sheet.name)}" uri="{_attribute(uri)}" trust="untrusted-content">'
        return GetAnswer((loaded.given,), f"{head}\n{inert(content)}\n</skill>", (), {})

    def missing(self, wanted: Wanted, max_tokens: int) -> GetAnswer:
        """Return an answer that only says what was not found."""
        return GetAnswer((), self._tail(wanted, [], [], max_tokens), wanted.not_found, wanted.ambiguous)

    def render(self, skills: Sequence[Skill], cleaner: Cleaner, max_tokens: int, session: Session) -> tuple[str, int]:
        """Return the skills as one text within ``max_tokens``, and the tokens that they would take in full."""
        loaded = self._loaded(skills, cleaner, session)
        rendered = injection([each.sheet for each in loaded], max_tokens, self.estimate)
        return rendered.text, sum(outcome.raw_tokens for outcome in rendered.outcomes)

    def _loaded(self, skills: Sequence[Skill], cleaner: Cleaner, session: Session) -> list[_Loaded]:
        texts = self._catalog.texts(skills)
        return [self._load(skill, texts[skill.row], cleaner, session) for skill in skills if skill.row in texts]

    def _load(self, skill: Skill, text: SkillText, cleaner: Cleaner, session: Session) -> _Loaded:
        cleaned = cleaner.skill(text)
        uri = cleaner.text(skill_uri(skill.source, skill.folder))
        home = self._catalog.home_of(skill)
        files = tuple(map(cleaner.text, self._files(home)))
        shown = cleaned.text
        digest = skill.content_hash[:DIGEST_SHOWN]
        sheet = Sheet.of(shown, source=skill.source, uri=uri, digest=digest, files=files)
        given = GivenSkill(skill, shown, uri, skill.content_hash, files, self._base(skill, home))
        return _Loaded(given, sheet, tuple(name for name in cleaned.mentioned if name not in session.activations))

    def _files(self, home: Home | None) -> tuple[str, ...]:
        if home is None:
            return ()
        try:
            return tuple(filter(home.has, list_inside(home.folder, self._limits, base=home.base).files))
        except UnknownSkill:
            return ()

    def _base(self, skill: Skill, home: Home | None) -> str:
        """Return what the paths of the skill's files start from: a URI, or a path where one may be told (C15)."""
        if home is not None and self._exposes_paths:
            return str(home.folder)
        return skill_uri(skill.source, skill.folder, "")

    def _tail(self, wanted: Wanted, known: Sequence[_Loaded], fresh: Sequence[_Loaded], room: int) -> str:
        """Return what there is to say beside the skills themselves, in at most ``room`` tokens."""
        sent = [f"{each.sheet.name} ({each.sheet.digest})" for each in known]
        lines = [
            ("Already sent in this session and unchanged (force=true sends again)", sent),
            ("Not found (skill_search finds skills)", wanted.not_found),
            *(
                (f"Several skills are called {truncate(one_line(name), _NAME_MAX)}; get one of", names)
                for name, names in wanted.ambiguous.items()
            ),
        ]
        made = [_Line(items, partial(_listed, head)) for head, items in lines]
        made.append(_Line(tuple(dict.fromkeys(name for each in fresh for name in each.mentioned)), _hint))
        tail: list[str] = []
        for line in made:
            text = line.fitting(room - self.estimate("\n".join([*tail, ""])), self.estimate)
            tail += [text] if text else []
        return "\n".join(tail)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line about some names; ``render`` makes it of those that fit and how many are left out."""

    items: Sequence[str]
    render: Callable[[Sequence[str], int], str]

    def fitting(self, room: int, estimate: Callable[[str], int]) -> str:
        """Return the line with as many names as fit in ``room`` tokens; nothing where none does."""
        shown = [inert(truncate(one_line(item), _NAME_MAX)) for item in self.items]
        for count in range(len(shown), 0, -1):
            line = self.render(shown[:count], len(shown) - count)
            if estimate(line) <= room:
                return line
        return ""


def _listed(head: str, names: Sequence[str], left_out: int) -> str:
    return f"{head}: {', '.join(names)}" + (f" and {left_out} more" if left_out else "")


def _hint(names: Sequence[str], _left_out: int) -> str:
    return hint(names)


def _attribute(text: str) -> str:
    return escape(inert_line(text))
