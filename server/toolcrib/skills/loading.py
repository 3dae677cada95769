"""``skill_get``: returns the texts of the skills that a model names, within its budget."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from html import escape
from json.encoder import encode_basestring
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from toolcrib.base.cache import RecentBy
from toolcrib.base.errors import BadRequest, UnknownSkill
from toolcrib.base.model import Skill, SkillOrigin, SkillText, ToolNote
from toolcrib.base.text import one_line, truncate
from toolcrib.catalog.denied_names import hint
from toolcrib.catalog.gate import is_of_others
from toolcrib.policy.sessions import SentKey, Session
from toolcrib.skills.answers import Format, GetAnswer, GetRequest, LoadedSkill, ToolSpellings
from toolcrib.skills.identity import parse_uri, skill_uri
from toolcrib.skills.sources.files import NO_FILES, SKILL_FILE, Listing, SkillFolder, decoded, is_skill_file
from toolcrib.skills.text.cleaning import Cleaner
from toolcrib.skills.text.rendering import Brief, Estimate, Page, RawPage, Sheet, estimator, inert, inert_line, rendered
from toolcrib.skills.tools import SkillTools, spellings_in
from toolcrib.skills.visible import Resolved, VisibleSkills

if TYPE_CHECKING:
    from toolcrib.skills.use_cases import SkillDependencies

_DIGEST_SHOWN = 12
"""Number of hex digits of a digest in a text for a model."""
_TAIL_SHARE = 4
"""Text besides the skills may take this fraction (1/n) of the budget."""
_REPORT = 'When it is done, tell skill_report_outcome what came of it, with "handle": "{}".'
_MORE = "skill_get gives each of these whole, by its URI."
_NAME_MAX = 200
_NEAR_MAX = 5
_LIKENESS = 0.5
_PREPARED_MAX = 32
"""Maximum number of cached skills, shared by callers with the same permissions."""

_PageKind = Literal[Format, "brief"]
_PAGES: Mapping[_PageKind, type[Page]] = {"injection": Page, "raw": RawPage, "brief": Brief}

_MadeOf = tuple[Skill, SkillFolder | None, Listing, _PageKind]
"""What a :class:`_Prepared` is made of: a skill, whose hash identifies its text, its folder, its files, the format."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A skill ready to be rendered, and the tools it mentions that a list may lack."""

    given: LoadedSkill
    page: Page
    mentioned: tuple[str, ...]


class SkillLoader:
    """Creates the texts of skills for one configuration. Reading may block."""

    def __init__(self, dependencies: "SkillDependencies", tools: SkillTools) -> None:
        section, is_local = dependencies.settings.toolcrib, dependencies.runtime.is_local
        self._catalog, self._tools, self._limits = dependencies.catalog, tools, section.limits
        self._requests_outcomes = section.skills.outcomes
        # With tokens there are callers on other machines, for whom local paths are useless.
        is_shared = bool(section.http.tokens) and not is_local
        exposes = section.skills.expose_paths
        self._exposes_paths = not is_shared and (exposes == "always" or (exposes == "auto" and is_local))
        count = estimator(section.skills.estimator).size
        # Counts the size of a text in JSON, so that both forms of an answer stay within the budget.
        self.estimate = Estimate(lambda text: count(encode_basestring(text)) - 2)
        self._prepared = RecentBy[Cleaner, tuple[int, _PageKind], tuple[_MadeOf, _Prepared]](_PREPARED_MAX)

    def load(self, resolved: Resolved, request: GetRequest, cleaner: Cleaner, session: Session) -> GetAnswer:
        """Return the skills within ``request.max_tokens``; those that the session already has are only named (R177)."""
        loaded = self._prepare(resolved.skills, cleaner, request.format)
        share = request.max_tokens // max(len(loaded), 1)
        known = [] if request.force else [each for each in loaded if _was_sent(session, each.given, request, share)]
        fresh = [each for each in loaded if each not in known]
        room = request.max_tokens // _TAIL_SHARE
        # For a skill that was deactivated and requested again, only the text is known; its tools are active again.
        active = {each.id for each in session.skills.skills}
        described = [each.given for each in loaded if each in fresh or each.given.skill.id not in active]
        tools = self._tools.describe(session, described, self.estimate, room)
        listed = tools.names | session.activations.names
        mentioned = (name for each in fresh for name in each.mentioned if name not in listed)
        rest = request.max_tokens - self._cost(tools.text)
        # The caller needs its handle to report an outcome, if nothing else identifies its session.
        handle = session.skills.handle
        report = _REPORT.format(handle) if fresh and handle and self._requests_outcomes else ""
        tail = self._tail(resolved, known, mentioned, (room if fresh else rest) - self._cost(report))
        tail = "\n".join(filter(None, [report, tail]))
        text, outcomes = rendered([each.page for each in fresh], rest - self._cost(tail), self.estimate)
        portions = {"full": request.max_tokens, "compressed": request.max_tokens // max(len(fresh), 1)}
        shares = {
            each.given.skill.row: portions.get(outcome.included, 0)
            for each, outcome in zip(fresh, outcomes, strict=True)
        }
        answered = tuple(
            replace(self._sent(each.given, shares.get(each.given.skill.row, 0)), is_known=each in known)
            for each in loaded
        )
        if not all(each.is_delivered for each in answered):
            # A skill without room for its text is not activated, so its tools are not described after all.
            rows = {each.skill.row for each in described}
            delivered = [each for each in answered if each.is_delivered and each.skill.row in rows]
            tools = self._tools.describe(session, delivered, self.estimate, self.estimate(tools.text))
        return GetAnswer(
            skills=answered,
            formatted="\n\n".join(filter(None, [tools.text, text, tail])),
            not_found=resolved.not_found,
            ambiguous=resolved.ambiguous,
            near=resolved.near,
        )

    def load_tools_only(self, resolved: Resolved, max_tokens: int, cleaner: Cleaner, session: Session) -> GetAnswer:
        """Return the skills as if the caller already had their texts, with information about their tools."""
        prepared = self._prepare(resolved.skills, cleaner, "injection")
        skills = tuple(replace(each.given, is_known=True) for each in prepared)
        tools = self._tools.describe(session, skills, self.estimate, max_tokens // 2).text
        tail = self._tail(resolved, (), (), max_tokens - self._cost(tools))
        return GetAnswer(skills, "\n\n".join(filter(None, [tools, tail])), resolved.not_found, resolved.ambiguous)

    def load_file(self, resolved: Resolved, written: str, cleaner: Cleaner) -> GetAnswer:
        """Return the one requested skill with its file ``written`` in place of its text.

        Raises:
            UnknownSkill: the skill has no such file, or its row was deleted.
            BadRequest: the file is not text, or too large.

        """
        [skill] = resolved.skills
        folder, clean = self._catalog.folder_of(skill), partial(cleaner.about, skill)
        base = self._base(folder, clean)
        path = _path_in_skill(skill, written, base)
        uri = skill_uri(skill.source, skill.folder, path)
        limit = self._limits.result_max_bytes
        try:
            data = self._catalog.read_file(skill, path, limit)
        except UnknownSkill:
            files = self._list(folder).files
            if path not in files:
                raise _missing_file(clean(written), tuple(map(clean, files or (SKILL_FILE,)))) from None
            place = f"lies at {base}/{path}" if base else f"is the resource {uri}"
            too_large = clean(f"{path} has more than {limit} bytes (limits.result_max_bytes). It {place}.")
            raise BadRequest(too_large) from None
        content = decoded(data)
        if content is None:
            raise BadRequest(f"{path} is not text. A host can read it as the resource {uri}.")
        is_confirmed = is_skill_file(path) and self._catalog.must_confirm(skill)
        content = cleaner.confirmed_file(data, self._limits.skill_text_max_bytes) if is_confirmed else clean(content)
        if content is None:
            raise BadRequest(f"{path} cannot be given as it was approved. Ask for the skill without 'file'.")
        prepared = self._prepare(resolved.skills, cleaner, "injection")
        if not prepared:
            raise UnknownSkill(path)
        given = prepared[0].given
        head = f'<skill name="{_attribute(given.text.name)}" uri="{_attribute(uri)}" trust="untrusted-content">'
        return GetAnswer((self._sent(given),), f"{head}\n{inert(content)}\n</skill>", (), {})

    def load_brief(
        self, skills: Sequence[Skill], cleaner: Cleaner, session: Session, max_tokens: int
    ) -> tuple[str, int]:
        """Return brief versions of the skills, as one text within ``max_tokens``, and the token count of the full ones.

        The text ends with how to get more of them, and the tools that they name (R150).
        """
        prepared = self._prepare(skills, cleaner, "brief")
        mentioned = dict.fromkeys(name for each in prepared for name in each.mentioned)
        unlisted = [name for name in mentioned if name not in session.activations.names]
        room = max_tokens // _TAIL_SHARE
        tail = _MORE if prepared and self.estimate(f"{_MORE}\n") <= room else ""
        tools = self._line(unlisted, _hint, room - self.estimate(f"{tail}\n")) if tail else ""
        tail = "\n".join(filter(None, [tail, tools]))
        text, outcomes = rendered([each.page for each in prepared], max_tokens - self._cost(tail), self.estimate)
        return "\n\n".join(filter(None, [text, tail])), sum(outcome.raw_tokens for outcome in outcomes)

    def not_found(self, resolved: Resolved, max_tokens: int) -> GetAnswer:
        """Return an answer that only reports what was not found."""
        tail = self._tail(resolved, (), (), max_tokens)
        return GetAnswer((), tail, resolved.not_found, resolved.ambiguous, resolved.near)

    def record_sent(self, session: Session, answer: GetAnswer, request: GetRequest) -> None:
        """Record which texts the session now has: they need not be sent again, and their outcomes may be reported."""
        for given in answer.skills:
            if given.share:
                key = _sent_key(given, request)
                budget, share = _sent_before(session, key)
                session.sent_skills[key] = max(budget, request.max_tokens), max(share, given.share)
                session.sent_skills.unreported[given.skill.id] = given.skill

    # -- skills ready to be rendered -------------------------------------------------------------

    def _prepare(self, skills: Sequence[Skill], cleaner: Cleaner, kind: _PageKind) -> list[_Prepared]:
        """Return these skills ready to be rendered; those with deleted rows are omitted."""
        known = self._prepared[cleaner]
        prepared: list[_Prepared] = []
        for skill in skills:
            folder = self._catalog.folder_of(skill)
            made_of = skill, folder, self._list(folder), kind
            with suppress(KeyError):
                known_of, ready = known[skill.row, kind]
                if known_of == made_of:
                    prepared.append(ready)
                    continue
            text = self._catalog.texts([skill]).get(skill.row)
            if text is None:
                continue
            made = self._made(made_of, text, cleaner)
            prepared.append(made)
            if skill.content_hash:  # one written by another program may have none
                known[skill.row, kind] = made_of, made
        return prepared

    def _made(self, made_of: _MadeOf, text: SkillText, cleaner: Cleaner) -> _Prepared:
        skill, folder, listing, kind = made_of
        cleaned = cleaner.skill(text)
        clean = partial(cleaner.about, skill)
        uri = clean(skill_uri(skill.source, skill.folder))
        files = tuple(map(clean, listing.files))
        base = self._base(folder, clean)
        spellings = spellings_in(skill, text)
        tools = cleaned.text.tools
        if kind == "injection":
            # These are described next to the skill; its own list names the others: tools of hosts, ours, mentions.
            described = {note.tool for note in spellings.notes if not is_of_others(note.tool)}
            tools = tuple(note for note in tools if note.tool not in described)
        elif kind == "brief":
            tools = self._tools_in_brief(tools, spellings, cleaner)
        sheet = Sheet.from_text(
            replace(cleaned.text, tools=tools),
            uri=uri,
            digest=skill.content_hash[:_DIGEST_SHOWN],
            files=files,
            base=base,
            files_cut=self._files_cut(listing),
        )
        shown = base or clean(skill_uri(skill.source, skill.folder, ""))
        summary = replace(skill, description=cleaned.text.description, trigger=cleaned.text.trigger).summary
        given = LoadedSkill(skill, cleaned.text, summary, uri, skill.content_hash, files, shown, spellings)
        return _Prepared(given, _PAGES[kind](sheet, self.estimate), cleaned.mentioned)

    def _tools_in_brief(
        self, tools: Sequence[ToolNote], spellings: ToolSpellings, cleaner: Cleaner
    ) -> tuple[ToolNote, ...]:
        """Return what a brief says of a skill's tools, which nothing beside it describes."""
        known = tuple(note for note in tools if is_of_others(note.tool) or cleaner.names_a_tool(note.tool))
        others = (note.tool for note in spellings.notes if not is_of_others(note.tool))
        missing = [name for name in others if not cleaner.names_a_tool(name)]
        # Denied and nonexistent tools are both omitted, or counted together: indistinguishable.
        unlisted = self._tools.unlisted(cleaner.masker.permissions, missing)
        named = [name for name in missing if name in unlisted]
        if not named:
            return known
        shown = ", ".join(named) if cleaner.changes_no_names else f"{len(named)} more"
        return (*known, ToolNote(f"not listed yet: {shown}"))

    def _sent(self, given: LoadedSkill, share: int = 0) -> LoadedSkill:
        # The time of the file is not cached with the rest: a checkout may restore the text with another time.
        return replace(given, share=share, modified_ms=self._catalog.modified_ms(given.skill))

    def _list(self, folder: SkillFolder | None) -> Listing:
        try:
            return NO_FILES if folder is None else folder.list(self._limits)
        except UnknownSkill:
            return NO_FILES

    def _files_cut(self, listing: Listing) -> str:
        """Return which limit omits how many files from a listing; empty if it is complete."""
        if not listing.truncated:
            return ""
        limit = "skill_files" if len(listing.files) >= self._limits.skill_files else "skill_files_max_bytes"
        return f"limits.{limit} leaves {listing.total - len(listing.files) or 'some'} out"

    def _base(self, folder: SkillFolder | None, clean: Callable[[str], str]) -> str:
        """Return the working directory for scripts of the skill, if its path may be shown; else empty (C15)."""
        if folder is None or folder.is_copy or not self._exposes_paths:
            return ""
        # A path that cleaning would change is useless afterwards.
        path = str(folder.real)
        return path if clean(path) == path else ""

    def id_at(self, name: str, visible: VisibleSkills, cleaner: Cleaner) -> str:
        """Return the id of the visible skill whose folder, or SKILL.md, lies at the absolute path ``name``.

        Empty if ``name`` is no path, or nothing lies there whose path would be shown.
        """
        if not self._exposes_paths or not Path(name).is_absolute():
            return ""
        named = Path(name)
        path = str(named.parent if named.name == SKILL_FILE else named)
        last = Path(path).name
        # Its own folder is mostly called as in the index; behind a link it may be called otherwise.
        for skill in sorted(visible.everything, key=lambda skill: skill.folder.rpartition("/")[2] != last):
            if skill.origin is SkillOrigin.DIR:
                base = self._base(self._catalog.folder_of(skill), partial(cleaner.about, skill))
                if base and path == base:
                    return skill.id
        return ""

    # -- text besides the skills -----------------------------------------------------------------

    def _tail(self, resolved: Resolved, known: Iterable[_Prepared], mentioned: Iterable[str], max_tokens: int) -> str:
        """Return the text besides the skills themselves, in at most ``max_tokens``."""
        sent = [f"{each.given.uri} ({each.given.digest[:_DIGEST_SHOWN]})" for each in known]
        lines = [
            ("Already sent in this session and unchanged (force=true sends again)", sent),
            ("Not found (skill_search finds skills)", resolved.not_found),
            *((f"Instead of {_short(name)}, did you mean", names) for name, names in resolved.near.items()),
            *(
                (f"Several skills are called {_short(name)}; get one of", names)
                for name, names in resolved.ambiguous.items()
            ),
        ]
        tail: list[str] = []
        for names, render in (
            *((names, partial(_listed, head)) for head, names in lines),
            (tuple(dict.fromkeys(mentioned)), _hint),
        ):
            text = self._line(names, render, max_tokens - self.estimate("\n".join([*tail, ""])))
            tail += [text] if text else []
        return "\n".join(tail)

    def _line(self, names: Sequence[str], render: Callable[[Sequence[str], int], str], max_tokens: int) -> str:
        """Return a line with as many names as fit; empty if none does.

        ``render`` returns it for those that fit and the number of omitted ones.
        """
        shown = [inert(_short(name)) for name in names]
        for count in range(len(shown), 0, -1):
            line = render(shown[:count], len(shown) - count)
            if self.estimate(line) <= max_tokens:
                return line
        return ""

    def _cost(self, part: str) -> int:
        """Return the cost of a part of the answer, including its separator."""
        return self.estimate(f"{part}\n\n") if part else 0


def _was_sent(session: Session, given: LoadedSkill, request: GetRequest, share: int) -> bool:
    """Return whether the session already has this text of the skill, with at least the same budget and share of it.

    What was shortened to make room for others is sent again if it is requested alone.
    """
    budget, sent = _sent_before(session, _sent_key(given, request))
    return budget >= request.max_tokens and sent >= share


def _sent_before(session: Session, key: SentKey) -> tuple[int, int]:
    try:
        return session.sent_skills[key]
    except KeyError:
        return 0, 0


def _sent_key(given: LoadedSkill, request: GetRequest) -> SentKey:
    return given.skill.id, given.digest, request.format


def _path_in_skill(skill: Skill, written: str, base: str) -> str:
    """Return the path in the skill that ``written`` refers to.

    A path may begin with ``./`` and end with a link's fragment; a ``skill://`` URI of the skill and a path below
    ``base``, its folder if that may be shown, refer to its files too. Anything else is returned unchanged.
    """
    path = written.strip()
    if "://" in path:
        segments = parse_uri(path.partition("#")[0])
        own = (skill.source, *skill.folder.split("/")) if skill.folder else (skill.source,)
        if segments is None or segments[: len(own)] != own:
            return path
        return "/".join(segments[len(own) :]) or SKILL_FILE
    if base and path.startswith(f"{base}/"):
        path = path[len(base) + 1 :]
    while path.startswith("./"):
        path = path[2:]
    return path.partition("#")[0] or path


def _missing_file(written: str, files: Sequence[str]) -> UnknownSkill:
    """Return the error for a file that a skill does not have; it suggests similar ones of ``files``."""
    name = written.rstrip("/").rpartition("/")[2]
    alike = [path for path in files if path.rpartition("/")[2].lower() == name.lower()]
    below = [path for path in files if path.startswith(f"{written.strip('/')}/")]
    close = get_close_matches(written, files, n=_NEAR_MAX, cutoff=_LIKENESS)
    near = list(dict.fromkeys((*alike, *below, *close)))[:_NEAR_MAX]
    shown = _short(written)
    if near:
        return UnknownSkill(f"{shown}. Did you mean: {', '.join(near)}")
    some = ", ".join(files[:_NEAR_MAX])
    return UnknownSkill(f"{shown}. Its files: {some}" + (", …" if len(files) > _NEAR_MAX else "") if some else shown)


def _short(name: str) -> str:
    return truncate(one_line(name), _NAME_MAX)


def _listed(head: str, names: Sequence[str], left_out: int) -> str:
    return f"{head}: {', '.join(names)}" + (f" and {left_out} more" if left_out else "")


def _hint(names: Sequence[str], _left_out: int) -> str:
    return hint(names)


def _attribute(text: str) -> str:
    return escape(inert_line(text))
