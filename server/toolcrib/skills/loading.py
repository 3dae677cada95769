"""``skill_get``: returns the texts of the skills that a model names, within its budget."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from html import escape
from json.encoder import encode_basestring
from typing import Literal

from toolcrib.base.cache import RecentBy
from toolcrib.base.errors import BadRequest, UnknownSkill
from toolcrib.base.model import Skill, SkillText
from toolcrib.base.text import one_line, truncate
from toolcrib.catalog.denied_names import hint
from toolcrib.catalog.gate import is_of_others
from toolcrib.config.settings import Settings
from toolcrib.policy.sessions import SentKey, Session
from toolcrib.skills.binding import SkillBinding, Told, names_in, told_inside
from toolcrib.skills.catalog import Home, SkillCatalog
from toolcrib.skills.identity import SKILL_FILE, parse_uri, skill_uri
from toolcrib.skills.requests import Format, GetAnswer, GetRequest, LoadedSkill
from toolcrib.skills.sources.files import NO_FILES, Listing, list_inside
from toolcrib.skills.text.cleaning import Cleaner
from toolcrib.skills.text.rendering import Brief, Estimate, Page, RawPage, Sheet, estimator, inert, inert_line, rendered
from toolcrib.skills.visible import Wanted

_NEAR_MAX = 5
_LIKENESS = 0.5
_SHOWN_MAX = 200


def path_in_skill(skill: Skill, written: str, base: str) -> str:
    """Return the path in the skill that ``written`` refers to.

    A path may begin with ``./`` and end with a link's fragment; a ``skill://`` URI of the skill and a path below
    ``base``, its folder if that may be shown, refer to its files too. Anything else is returned unchanged.
    """
    path = written.strip()
    if "://" in path:
        return _of_uri(skill, path)
    if base and path.startswith(f"{base}/"):
        path = path[len(base) + 1 :]
    while path.startswith("./"):
        path = path[2:]
    return path.partition("#")[0] or path


def _of_uri(skill: Skill, uri: str) -> str:
    segments = parse_uri(uri.partition("#")[0])
    own = (skill.source, *skill.folder.split("/")) if skill.folder else (skill.source,)
    if segments is None or segments[: len(own)] != own:
        return uri
    return "/".join(segments[len(own) :]) or SKILL_FILE


def missing_file(written: str, files: Sequence[str]) -> UnknownSkill:
    """Return the error for a file that a skill does not have; it suggests similar ones of ``files``."""
    name = written.rstrip("/").rpartition("/")[2]
    alike = [path for path in files if path.rpartition("/")[2].lower() == name.lower()]
    below = [path for path in files if path.startswith(f"{written.strip('/')}/")]
    close = get_close_matches(written, files, n=_NEAR_MAX, cutoff=_LIKENESS)
    near = list(dict.fromkeys((*alike, *below, *close)))[:_NEAR_MAX]
    said = truncate(one_line(written), _SHOWN_MAX)
    if near:
        return UnknownSkill(f"{said}. Did you mean: {', '.join(near)}")
    some = ", ".join(files[:_NEAR_MAX])
    return UnknownSkill(f"{said}. Its files: {some}" + (", …" if len(files) > _NEAR_MAX else "") if some else said)


DIGEST_SHOWN = 12
"""Number of hex digits of a digest in a text for a model."""

_TAIL_SHARE = 4
"""Text besides the skills may take this fraction (1/n) of the budget."""
_REPORT = 'When it is done, tell skill_report_outcome what came of it, with "handle": "{}".'
_MORE = "skill_get gives each of these whole, by its URI."
_NAME_MAX = 200
_READY_MAX = 32
"""Maximum number of cached skills, shared by callers with the same permissions."""


@dataclass(frozen=True, slots=True)
class _Ready:
    """A skill ready to be rendered, and the tools it mentions that a list may lack."""

    given: LoadedSkill
    page: Page
    mentioned: tuple[str, ...]


_PageKind = Literal[Format, "brief"]

_PAGES: Mapping[_PageKind, type[Page]] = {"injection": Page, "raw": RawPage, "brief": Brief}

_MadeOf = tuple[Skill, Home | None, Listing, _PageKind]
"""The cache key of a :class:`_Ready`: a skill, whose hash identifies its text, its location, its files, and the format.
"""


class SkillLoader:
    """Creates the texts of skills for one configuration. Reading may block."""

    def __init__(self, settings: Settings, catalog: SkillCatalog, binding: SkillBinding, *, is_local: bool) -> None:
        self._catalog, self._binding, self._limits = catalog, binding, settings.toolcrib.limits
        exposes, self._asks_for_outcomes = settings.toolcrib.skills.expose_paths, settings.toolcrib.skills.outcomes
        # With tokens there are callers on other machines, for whom local paths are useless.
        is_shared = bool(settings.toolcrib.http.tokens) and not is_local
        self._exposes_paths = not is_shared and (exposes == "always" or (exposes == "auto" and is_local))
        count = estimator(settings.toolcrib.skills.estimator).size
        # Counts the size of a text in JSON, so that both forms of an answer stay within the budget.
        self.estimate = Estimate(lambda text: count(encode_basestring(text)) - 2)
        self._ready = RecentBy[Cleaner, _MadeOf, _Ready](_READY_MAX)

    def load(self, wanted: Wanted, request: GetRequest, cleaner: Cleaner, session: Session) -> GetAnswer:
        """Return the skills within ``request.max_tokens``; those that the session already has are only named (R177)."""
        loaded = self._loaded(wanted.skills, cleaner, request.format)
        share = request.max_tokens // max(len(loaded), 1)
        known = [] if request.force else [each for each in loaded if _was_sent(session, each.given, request, share)]
        fresh = [each for each in loaded if each not in known]
        room = request.max_tokens // _TAIL_SHARE
        # For a skill that was deactivated and requested again, only the text is known; its tools are active again.
        active = {each.id for each in session.skills.skills}
        told = [each.given for each in loaded if each in fresh or each.given.skill.id not in active]
        tools = self._told(session, told, room)
        known_names = tools.names | session.activations.names
        mentioned = (name for each in fresh for name in each.mentioned if name not in known_names)
        rest = request.max_tokens - self._cost(tools.text)
        report = self._report(session) if fresh else ""
        tail = self._tail(wanted, known, mentioned, (room if fresh else rest) - self._cost(report))
        tail = "\n".join(filter(None, [report, tail]))
        text, outcomes = rendered([each.page for each in fresh], rest - self._cost(tail), self.estimate)
        portions = {"full": request.max_tokens, "compressed": request.max_tokens // max(len(fresh), 1)}
        shares = {
            each.given.skill.row: portions.get(outcome.included, 0)
            for each, outcome in zip(fresh, outcomes, strict=True)
        }
        answered = tuple(
            replace(self._dated(each.given, shares.get(each.given.skill.row, 0)), is_known=each in known)
            for each in loaded
        )
        if not all(each.is_delivered for each in answered):
            rows = {each.skill.row for each in told}
            delivered = [each for each in answered if each.is_delivered and each.skill.row in rows]
            tools = self._told(session, delivered, self.estimate(tools.text))
        return GetAnswer(
            skills=answered,
            formatted="\n\n".join(filter(None, [tools.text, text, tail])),
            not_found=wanted.not_found,
            ambiguous=wanted.ambiguous,
            near=wanted.near,
        )

    def _report(self, session: Session) -> str:
        """Return how the caller identifies itself when reporting an outcome, if nothing else identifies it."""
        handle = session.skills.handle
        return _REPORT.format(handle) if handle and self._asks_for_outcomes else ""

    def _told(self, session: Session, skills: Sequence[LoadedSkill], room: int) -> Told:
        return self._binding.told(session, skills, lambda text: self.estimate(text) <= room)

    def _cost(self, part: str) -> int:
        """Return the cost of a part of the answer, including its separator."""
        return self.estimate(f"{part}\n\n") if part else 0

    def without_texts(self, wanted: Wanted, max_tokens: int, cleaner: Cleaner, session: Session) -> GetAnswer:
        """Return the skills as if the caller already had their texts, with information about their tools."""
        skills = tuple(replace(each.given, is_known=True) for each in self._loaded(wanted.skills, cleaner, "injection"))
        tools = self._told(session, skills, max_tokens // 2).text
        tail = self._tail(wanted, (), (), max_tokens - self._cost(tools))
        return GetAnswer(skills, "\n\n".join(filter(None, [tools, tail])), wanted.not_found, wanted.ambiguous)

    def load_file(self, wanted: Wanted, path: str, content: str, cleaner: Cleaner) -> GetAnswer:
        """Return the one requested skill with ``content``, its file ``path``, in place of its text.

        Raises:
            UnknownSkill: its row was deleted.

        """
        loaded = next(iter(self._loaded(wanted.skills, cleaner, "injection")), None)
        if loaded is None:
            raise UnknownSkill(path)
        uri = skill_uri(loaded.given.skill.source, loaded.given.skill.folder, path)
        head = f'<skill name="{_attribute(loaded.given.text.name)}" uri="{_attribute(uri)}" trust="untrusted-content">'
        return GetAnswer((self._dated(loaded.given),), f"{head}\n{inert(content)}\n</skill>", (), {})

    def _dated(self, given: LoadedSkill, share: int = 0) -> LoadedSkill:
        return replace(given, share=share, modified_ms=self._catalog.modified_ms(given.skill))

    def missing(self, wanted: Wanted, max_tokens: int) -> GetAnswer:
        """Return an answer that only reports what was not found."""
        return GetAnswer((), self._tail(wanted, (), (), max_tokens), wanted.not_found, wanted.ambiguous, wanted.near)

    def render(self, skills: Sequence[Skill], cleaner: Cleaner, session: Session, max_tokens: int) -> tuple[str, int]:
        """Return brief versions of the skills, as one text within ``max_tokens``, and the token count of the full ones.

        The text ends with how to get more of them, and the tools that they name (R150).
        """
        loaded = self._loaded(skills, cleaner, "brief")
        mentioned = dict.fromkeys(name for each in loaded for name in each.mentioned)
        unlisted = [name for name in mentioned if name not in session.activations.names]
        room = max_tokens // _TAIL_SHARE
        tail = _MORE if loaded and self.estimate(f"{_MORE}\n") <= room else ""
        tools = _Line(unlisted, _hint).fitting(room - self.estimate(f"{tail}\n"), self.estimate) if tail else ""
        tail = "\n".join(filter(None, [tail, tools]))
        left = max_tokens - (self.estimate(f"{tail}\n\n") if tail else 0)
        text, outcomes = rendered([each.page for each in loaded], left, self.estimate)
        return "\n\n".join(filter(None, [text, tail])), sum(outcome.raw_tokens for outcome in outcomes)

    def remember(self, session: Session, answer: GetAnswer, request: GetRequest) -> None:
        """Record which texts the session now has: they need not be sent again, and their outcomes may be reported."""
        for given in answer.skills:
            if given.share:
                key = _sent_key(given, request)
                budget, had = _had(session, key)
                session.sent_skills[key] = max(budget, request.max_tokens), max(had, given.share)
                session.sent_skills.unreported[given.skill.id] = given.skill

    def _loaded(self, skills: Sequence[Skill], cleaner: Cleaner, kind: _PageKind) -> list[_Ready]:
        """Return these skills ready to be rendered; those with deleted rows are omitted."""
        ready = self._ready[cleaner]
        loaded: list[_Ready] = []
        for skill in skills:
            home = self._catalog.home_of(skill)
            made_of = skill, home, self._files(home), kind
            with suppress(KeyError):
                loaded.append(ready[made_of])
                continue
            text = self._catalog.texts([skill]).get(skill.row)
            if text is None:
                continue
            made = self._made_ready(made_of, text, cleaner)
            loaded.append(made)
            if skill.content_hash:  # one written by another program may have none
                ready[made_of] = made
        return loaded

    def _made_ready(self, made_of: _MadeOf, text: SkillText, cleaner: Cleaner) -> _Ready:
        skill, home, listing, kind = made_of
        cleaned = cleaner.skill(text)
        clean = partial(cleaner.about, skill)
        uri = clean(skill_uri(skill.source, skill.folder))
        files = tuple(map(clean, listing.files))
        digest = skill.content_hash[:DIGEST_SHOWN]
        base = self.base_of(home, clean)
        sheet = Sheet.of(cleaned.text, source=skill.source, uri=uri, digest=digest, files=files)
        sheet = replace(sheet, base=base, files_cut=self._files_cut(listing))
        folder = base or clean(skill_uri(skill.source, skill.folder, ""))
        names = names_in(skill, text)
        if kind == "injection":
            sheet = replace(sheet, tools=told_inside(sheet.tools, names))
        elif kind == "brief":
            # Nothing is added about tools. Denied and nonexistent ones are both omitted: indistinguishable.
            known = (note for note in sheet.tools if is_of_others(note.tool) or cleaner.names_a_tool(note.tool))
            sheet = replace(sheet, tools=tuple(known))
        given = LoadedSkill(skill, cleaned.text, uri, skill.content_hash, files, folder, names)
        return _Ready(given, _PAGES[kind](sheet, self.estimate), cleaned.mentioned)

    def _files(self, home: Home | None) -> Listing:
        if home is None:
            return NO_FILES
        try:
            listing = list_inside(home.folder, self._limits, base=home.base)
        except UnknownSkill:
            return NO_FILES
        files = tuple(filter(home.has, listing.files))
        return Listing(files, listing.total - len(listing.files) + len(files), listing.truncated)

    def _files_cut(self, listing: Listing) -> str:
        """Return which limit omits how many files from a listing; empty if it is complete."""
        if not listing.truncated:
            return ""
        limit = "skill_files" if len(listing.files) >= self._limits.skill_files else "skill_files_max_bytes"
        return f"limits.{limit} leaves {listing.total - len(listing.files) or 'some'} out"

    def base_of(self, home: Home | None, clean: Callable[[str], str]) -> str:
        """Return the working directory for scripts of the skill, if its path may be shown; else empty (C15)."""
        if home is None or not self._exposes_paths:
            return ""
        # A path that cleaning would change is useless afterwards.
        path = str(home.folder)
        return path if clean(path) == path else ""

    def file_of(self, skill: Skill, written: str, cleaner: Cleaner) -> str:
        """Return the path of the skill's file that ``written`` refers to."""
        base = self.base_of(self._catalog.home_of(skill), partial(cleaner.about, skill))
        return path_in_skill(skill, written, base)

    def without_file(self, skill: Skill, written: str, cleaner: Cleaner) -> UnknownSkill | BadRequest:
        """Return the error for a file that the skill does not have, with suggestions, or that is too large."""
        home, clean = self._catalog.home_of(skill), partial(cleaner.about, skill)
        files, base = self._files(home).files, self.base_of(home, clean)
        path = path_in_skill(skill, written, base)
        if path not in files:
            return missing_file(clean(written), tuple(map(clean, files or (SKILL_FILE,))))
        place = f"lies at {base}/{path}" if base else f"is the resource {skill_uri(skill.source, skill.folder, path)}"
        limit = self._limits.result_max_bytes
        return BadRequest(clean(f"{path} has more than {limit} bytes (limits.result_max_bytes). It {place}."))

    def _tail(self, wanted: Wanted, known: Iterable[_Ready], mentioned: Iterable[str], room: int) -> str:
        """Return the text besides the skills themselves, in at most ``room`` tokens."""
        sent = [f"{each.given.uri} ({each.given.digest[:DIGEST_SHOWN]})" for each in known]
        lines = [
            ("Already sent in this session and unchanged (force=true sends again)", sent),
            ("Not found (skill_search finds skills)", wanted.not_found),
            *((f"Instead of {_short(name)}, did you mean", names) for name, names in wanted.near.items()),
            *(
                (f"Several skills are called {_short(name)}; get one of", names)
                for name, names in wanted.ambiguous.items()
            ),
        ]
        made = [_Line(items, partial(_listed, head)) for head, items in lines]
        made.append(_Line(tuple(dict.fromkeys(mentioned)), _hint))
        tail: list[str] = []
        for line in made:
            text = line.fitting(room - self.estimate("\n".join([*tail, ""])), self.estimate)
            tail += [text] if text else []
        return "\n".join(tail)


def _was_sent(session: Session, given: LoadedSkill, request: GetRequest, share: int) -> bool:
    """Return whether the session already has this text of the skill, with at least the same budget and share of it.

    What was shortened to make room for others is sent again if it is requested alone.
    """
    budget, had = _had(session, _sent_key(given, request))
    return budget >= request.max_tokens and had >= share


def _had(session: Session, key: SentKey) -> tuple[int, int]:
    try:
        return session.sent_skills[key]
    except KeyError:
        return 0, 0


def _sent_key(given: LoadedSkill, request: GetRequest) -> SentKey:
    return given.skill.id, given.digest, request.format


@dataclass(frozen=True, slots=True)
class _Line:
    """A line about some names; ``render`` returns it for those that fit and the number of omitted ones."""

    items: Sequence[str]
    render: Callable[[Sequence[str], int], str]

    def fitting(self, room: int, estimate: Callable[[str], int]) -> str:
        """Return the line with as many names as fit in ``room`` tokens; empty if none does."""
        shown = [inert(_short(item)) for item in self.items]
        for count in range(len(shown), 0, -1):
            line = self.render(shown[:count], len(shown) - count)
            if estimate(line) <= room:
                return line
        return ""


def _short(name: str) -> str:
    return truncate(one_line(name), _NAME_MAX)


def _listed(head: str, names: Sequence[str], left_out: int) -> str:
    return f"{head}: {', '.join(names)}" + (f" and {left_out} more" if left_out else "")


def _hint(names: Sequence[str], _left_out: int) -> str:
    return hint(names)


def _attribute(text: str) -> str:
    return escape(inert_line(text))
