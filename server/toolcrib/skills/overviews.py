"""Lists of all skills: the directory in the instructions, the full catalog, the status, and a person's list."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from itertools import zip_longest
from typing import Literal

from toolcrib.base.errors import BadRequest
from toolcrib.base.json_values import compact
from toolcrib.base.model import Skill, TaskType
from toolcrib.base.text import one_line, spelling_key, truncate
from toolcrib.catalog.gate import SkillToolStates
from toolcrib.config.schema import SkillsDirectoryConfig
from toolcrib.events.kinds import SkillDirectoryRendered
from toolcrib.policy.sessions import Session
from toolcrib.skills.answers import LoadError, Overview, SkillsStatus, did_you_mean
from toolcrib.skills.identity import of_repository, skill_uri
from toolcrib.skills.sources.roots import CORE_SOURCE
from toolcrib.skills.use_cases import ERRORS_MAX, SkillUseCases

_OPEN, _CLOSE = "<skill_directory>", "</skill_directory>"
_TITLE_MAX = 80
_NAME_MAX = 128
"""Maximum length of a name in a list; a longer one would displace many others, and is only found by search."""
_TRIGGERS = (120, 80, 60, 40)
"""Maximum lengths of a trigger, tried from the left until every entry of the directory fits."""
_DESCRIPTIONS = (1024, 600, 400, 300, 200, 150, 100, 60)
"""The same for the descriptions of the catalog, which are never omitted."""
_USAGE = (
    "Each skill is a set of instructions for one kind of task. Before a task that a description fits, load the skill "
    "with skill_get by its name (or its uri where two share a name), then follow it."
)
_MORE = "Not all skills are listed: use skill_search to find the others."
_NEXT = "The next are in {}."


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """One skill as seen by the directory. ``last_used`` is in seconds since the epoch, None for never.

    ``clean`` redacts a text for the reader; it is slow, so it is only applied to what may be shown.
    """

    name: str
    title: str
    trigger: str
    task_type: TaskType
    is_pinned: bool
    use_count: int
    last_used: float | None
    source: str = ""
    clean: Callable[[str], str] = str


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One skill of the full catalog, already redacted."""

    name: str
    description: str
    uri: str
    source: str


def skill_directory(entries: Sequence[DirectoryEntry], section: SkillsDirectoryConfig) -> tuple[str, int]:
    """Return the ``<skill_directory>`` block and how many skills it names; empty and 0 without entries.

    Pinned skills come first, then the most recently or most often used, then the first of each source, the second of
    each, and so on (R123, R124). The limits on entries and bytes always hold (R122). Triggers are shortened equally for
    all; then the last entries lose them, then their titles, and are only then omitted.
    """
    named = [entry for entry in entries if len(entry.name) <= _NAME_MAX]
    chosen = [
        replace(
            each,
            name=one_line(each.clean(each.name)),
            title=one_line(each.clean("" if _says_no_more(each.title, each.name) else each.title)),
            trigger=one_line(each.clean(each.trigger)),
        )
        for each in _selected(named, section)[: section.max_entries]
    ]

    def rendered(count: int, titles: int, triggers: int, width: int) -> str:
        head = "Skills that skill_get loads by name"
        if count < len(entries):
            head += f" ({count} of {len(entries)}; skill_search finds the others)"
        lines = (
            _line(each, section, has_title=place < titles, width=width if place < triggers else 0)
            for place, each in enumerate(chosen[:count])
        )
        return "\n".join([_OPEN, f"{head}:", *lines, _CLOSE])

    every, narrow = len(chosen), _TRIGGERS[-1]
    if not chosen:
        return "", 0
    for width in _TRIGGERS:
        if _fits(text := rendered(every, every, every, width), section.max_bytes):
            return text, every
    found = _longest(lambda some: rendered(every, every, some, narrow), every, section.max_bytes) or _longest(
        lambda some: rendered(every, some, 0, narrow), every, section.max_bytes
    )
    if found:
        return found[0], every
    found = _longest(lambda some: rendered(some, 0, 0, narrow), every, section.max_bytes)
    return found if found and found[1] else ("", 0)


def _is_named_only(skill: Skill) -> bool:
    return of_repository(skill) or skill.source == CORE_SOURCE


def _says_no_more(title: str, name: str) -> bool:
    """Return whether a title is the words of the name, which stands before it."""
    return spelling_key(title) == spelling_key(name)


def _selected(entries: Sequence[DirectoryEntry], section: SkillsDirectoryConfig) -> list[DirectoryEntry]:
    """Return the entries in order of precedence."""

    def use(entry: DirectoryEntry) -> float:
        return entry.use_count if section.selection_strategy == "pinned_then_top" else entry.last_used or 0

    pinned = sorted((entry for entry in entries if entry.is_pinned), key=lambda entry: entry.name)
    others = [entry for entry in entries if not entry.is_pinned]
    used = sorted(filter(use, others), key=lambda entry: (-use(entry), entry.name))
    by_source: dict[str, list[DirectoryEntry]] = {}
    for entry in others:
        if not use(entry):
            by_source.setdefault(entry.source, []).append(entry)
    # Round-robin over sources: a folder with many skills does not crowd out the others.
    in_turns = (entry for turn in zip_longest(*by_source.values()) for entry in turn if entry is not None)
    return [*pinned, *used, *in_turns]


def _line(entry: DirectoryEntry, section: SkillsDirectoryConfig, *, has_title: bool, width: int) -> str:
    """Return one line of the directory; it always has the name, since skill_get accepts nothing else."""
    fields = section.include_fields
    line = f"- {entry.name}"
    if "task_type" in fields and entry.task_type is not TaskType.UNKNOWN:
        line += f" [{entry.task_type}]"
    if "title" in fields and entry.title and has_title:
        line += f' — "{truncate(entry.title, _TITLE_MAX)}"'
    if "trigger" in fields and entry.trigger and width:
        line += f": {truncate(entry.trigger, width)}"
    return escape(line, quote=False)


def catalog_block(
    entries: Sequence[CatalogEntry],
    total: int,
    max_bytes: int,
    form: Literal["xml", "json"] = "xml",
    next_uri: Callable[[int], str] | None = None,
) -> tuple[str, int]:
    """Return the first ``entries`` of a catalog of ``total`` skills as text, and how many it contains (R173, R174).

    The bound on bytes always holds. Descriptions are shortened equally for all but never omitted: instead, skills move
    to the next page, whose URI ``next_uri`` returns for the number of skills before it. An incomplete catalog says so
    and names skill_search. If the bounds are too small for anything, the text is empty.
    """
    render = _catalog_xml if form == "xml" else _catalog_json
    chosen = [entry for entry in entries if len(entry.name) <= _NAME_MAX]

    def rendered(count: int, width: int) -> str:
        more = f"{_MORE} {_NEXT.format(next_uri(count))}" if next_uri else _MORE
        return render(chosen[:count], width, more if count < total else "")

    every = len(chosen)
    for width in _DESCRIPTIONS if every else ():
        if _fits(text := rendered(every, width), max_bytes):
            return text, every
    found = _longest(lambda some: rendered(some, _DESCRIPTIONS[-1]), every - 1, max_bytes)
    return found if found and found[1] else ("", 0)


def _catalog_xml(entries: Sequence[CatalogEntry], width: int, more: str) -> str:
    usage = f"{_USAGE} {more}".rstrip()
    lines = [
        f'<skill name="{_attribute(entry.name)}" source="{_attribute(entry.source)}" uri="{_attribute(entry.uri)}">'
        f"{escape(truncate(one_line(entry.description), width), quote=False)}</skill>"
        for entry in entries
    ]
    return "\n".join(
        [
            "<skills_context>",
            f"<skills_usage>{usage}</skills_usage>",
            f'<skills_catalog truncated="{str(bool(more)).lower()}">',
            *lines,
            "</skills_catalog>",
            "</skills_context>",
        ]
    )


def _catalog_json(entries: Sequence[CatalogEntry], width: int, more: str) -> str:
    skills = [
        {
            "name": one_line(entry.name),
            "description": truncate(one_line(entry.description), width),
            "uri": one_line(entry.uri),
            "source": one_line(entry.source),
        }
        for entry in entries
    ]
    note = {"note": more} if more else {}
    catalog = {"skills": skills, "truncated": bool(more), **note}
    return compact(catalog)


def _attribute(text: str) -> str:
    return escape(one_line(text))


def _fits(text: str, max_bytes: int) -> bool:
    return len(text.encode()) <= max_bytes


def _longest(text_of: Callable[[int], str], most: int, max_bytes: int) -> tuple[str, int] | None:
    """Return the text of the greatest number up to ``most`` that fits, and the number; None if not even that of 0 does.

    A greater number has a longer text, so a few of them have to be tried only.
    """
    low, high = -1, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(text_of(middle), max_bytes) else (low, middle)
    return (text_of(low), low) if low >= 0 else None


CATALOG_PAGES = "toolcrib://skills/"
"""The prefix of the URIs of further catalog pages; the number of skills before the page follows."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:-]{0,63}")
"""A harmless label of a repository's skill in instructions, including its location: a name, not a sentence."""

_DIRECTORY_WAIT_S = 1.5
"""How long a connecting client may have to wait for the directory of skills, in seconds."""


class Overviews:
    """Four overviews of the available skills."""

    def __init__(self, skill_use_cases: SkillUseCases) -> None:
        self._use_cases, self._dependencies = skill_use_cases, skill_use_cases.dependencies
        self._catalog, self._section = self._dependencies.catalog, self._dependencies.settings.toolcrib.skills

    async def directory(self, session: Session, max_bytes: int, *, is_rehearsal: bool = False) -> str:
        """Return the ``<skill_directory>`` for the instructions, at most ``max_bytes`` of UTF-8 (R122).

        A client waits for it before it does anything else, so it is empty rather than late. ``is_rehearsal``: the
        result is not shown, so there is no event.
        """
        section = self._section.directory
        if not section.enabled or max_bytes < 1:
            return ""
        bounded = section.model_copy(update={"max_bytes": min(section.max_bytes, max_bytes)})
        made = await self._use_cases.run_within(_DIRECTORY_WAIT_S, partial(self._directory, session, bounded))
        if made is None:
            return ""
        text, count = made
        if not is_rehearsal:
            self._dependencies.events.emit(SkillDirectoryRendered(count=count), session=session.label)
        return text

    def _directory(self, session: Session, section: SkillsDirectoryConfig) -> tuple[str, int]:
        # Instructions speak with the authority of whoever configured toolcrib. People who clone a repository have not
        # read its skills: these are named only, and their descriptions are returned as data, by skill_search. The core
        # pack's names say what its skills are for: the room is for the person's own.
        visible, cleaner = self._use_cases.visible(session)
        uses = self._catalog.uses()
        spelled = ((skill, visible.brief(skill)) for skill in visible.skills)
        entries = [
            DirectoryEntry(
                name=spelling,
                title="" if _is_named_only(skill) else skill.title,
                trigger="" if _is_named_only(skill) else skill.summary,
                task_type=skill.task_type,
                is_pinned=skill.is_pinned,
                use_count=use.count if (use := uses.get(skill.id)) else 0,
                last_used=use.last if use else None,
                source=skill.source,
                clean=partial(cleaner.about, skill),
            )
            for skill, spelling in spelled
            # A server's skills are found by search only: they must not take room from the person's own.
            if not skill.is_of_server
            if not of_repository(skill) or _PLAIN_NAME.fullmatch(spelling)
        ]
        return skill_directory(entries, section)

    async def full_catalog(self, session: Session, form: Literal["xml", "json"], start: int = 0) -> str:
        """Return visible skills with their descriptions, within ``skills.initial``, after the first ``start`` of them.

        The rest is on further pages (R173, R174). Empty if there are not more than ``start`` skills.
        """
        bounds = self._section.initial

        def rendered() -> str:
            visible, cleaner = self._use_cases.visible(session)
            rest = visible.skills[start:]
            entries = [
                CatalogEntry(
                    name=visible.name_for(skill, cleaner.about),
                    description=_room_of(skill, cleaner.about(skill, skill.description or skill.trigger)),
                    uri=cleaner.about(skill, skill_uri(skill.source, skill.folder)),
                    source=skill.source,
                )
                for skill in rest[: bounds.max_entries]
            ]
            next_uri = partial(_page_uri, form, start)
            return catalog_block(entries, len(rest), bounds.max_bytes, form, next_uri)[0]

        return await self._use_cases.run(rendered)

    async def status(self, session: Session) -> SkillsStatus:
        """Return how many skills there are, which of them this session has, and which files could not be loaded."""
        states = SkillToolStates(self._dependencies.gate, self._dependencies.runtime.has_failed)

        def status() -> SkillsStatus:
            visible, cleaner = self._use_cases.visible(session)
            errors = self._use_cases.load_errors(session.caller, cleaner)
            loaded = {skill_id: digest for skill_id, digest, _ in session.sent_skills}
            sources = Counter[str]()
            for source, count in Counter(skill.source for skill in visible.skills).items():
                sources[cleaner.text(source)] += count
            return SkillsStatus(
                count=len(visible.skills),
                loaded=tuple(
                    (visible.name_for(skill, cleaner.about), loaded[skill.id])
                    for skill in visible.skills
                    if skill.id in loaded
                ),
                errors_count=len(errors),
                errors=tuple(errors[:ERRORS_MAX]),
                sources=sources,
                active=states.active_skills(session, self._dependencies.indexer.current()),
            )

        return await self._use_cases.run(status)

    async def overview(self, session: Session) -> Overview:
        """Return all skills in the caller's scope, and why some of them are hidden."""

        def overview() -> Overview:
            visible, cleaner = self._use_cases.visible(session)
            return Overview(
                skills=tuple(self._use_cases.shown(cleaner, visible, skill) for skill in visible.skills),
                withheld=tuple(self._catalog.withheld(session.caller)),
                changed=sum(load.changes.added + load.changes.updated for load in self._use_cases.loads),
                untrusted=self._catalog.untrusted_count(),
                errors=(
                    *(LoadError("", problem.path, problem.text) for problem in self._catalog.problems),
                    *self._use_cases.load_errors(session.caller, cleaner, for_person=True),
                ),
            )

        return await self._use_cases.run(overview)

    async def switch(self, session: Session, name: str, *, enabled: bool) -> Skill:
        """Enable or disable the one skill of this name permanently, and return it.

        Raises:
            BadRequest: there is none in the caller's scope, or several.

        """

        def switch() -> Skill:
            visible = self._catalog.everything(session.caller)
            found = visible.find(name)
            if not found:
                near = did_you_mean(visible.near(name))
                raise BadRequest(f"Not found: {name}.{near} `toolcrib skills list --hidden` shows all skills.")
            if len(found) > 1:
                raise BadRequest(f"Several skills are called {name}: {', '.join(map(visible.spelling, found))}")
            self._catalog.switch(found[0], enabled=enabled)
            return found[0]

        return await self._use_cases.run(switch)


def _room_of(skill: Skill, description: str) -> str:
    # Descriptions are shortened equally for all: long ones of servers would shorten the person's own.
    return truncate(description, _DESCRIPTIONS[-1]) if skill.is_of_server else description


def _page_uri(form: Literal["xml", "json"], start: int, count: int) -> str:
    return f"{CATALOG_PAGES}{start + count}" + (".xml" if form == "xml" else "")
