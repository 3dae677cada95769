"""The skills of a crib: found, listed and read by a program."""

from collections.abc import Callable
from dataclasses import dataclass

from toolcrib.base.errors import BadRequest, UnknownSkill
from toolcrib.gateway.composition import Gateway
from toolcrib.library.arguments import SearchKind, search_of, text_of
from toolcrib.policy.requests import Request
from toolcrib.policy.sessions import Session
from toolcrib.search.confidence import Confidence
from toolcrib.skills.answers import FoundSkill, GetRequest, ListRequest, did_you_mean
from toolcrib.skills.search import SkillQuery

_PAGE = 200
_WHOLE_TOKENS = 6000


@dataclass(frozen=True, slots=True)
class SkillInfo:
    """A skill that the caller may use, without its text.

    ``when`` says what it is for, ``source`` where it comes from. ``score`` orders the hits of one search;
    ``confidence`` says how likely the first one is right, and is at most ``low`` for the others. Both mean nothing in a
    list.

    >>> SkillInfo("pdf-forms", "Fill in PDF forms.", "user")
    SkillInfo('pdf-forms', 'Fill in PDF forms.')
    """

    name: str
    when: str = ""
    source: str = ""
    title: str = ""
    score: float = 0.0
    confidence: Confidence = "none"

    def __repr__(self) -> str:
        """Return its name, and what it is for."""
        return f"SkillInfo({self.name!r}, {self.when!r})"


@dataclass(frozen=True, slots=True)
class SkillContent:
    """The text of a skill, or of one of its files, as a model is to read it.

    ``uri`` names it (``skill://…/SKILL.md``), ``files`` are those in its folder.

    >>> SkillContent("pdf-forms", "# Fill in forms", files=("SKILL.md", "fields.md"))
    SkillContent('pdf-forms', 15 characters, files=['SKILL.md', 'fields.md'])
    """

    name: str
    text: str
    uri: str = ""
    source: str = ""
    files: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return its name, how long it is, and its files."""
        files = f", files={list(self.files)}" if self.files else ""
        return f"SkillContent({self.name!r}, {len(self.text)} characters{files})"


class CribSkills:
    """Skills as ``skill_search``, ``skill_get`` and ``skill_list`` give them. Got by ``crib.skills``.

    Each method waits for the first scan of the folders, and raises a ``ToolcribError`` where skills are disabled: they
    are unless a config file, or ``skills`` in the config of the program, says where to look for them.
    """

    def __init__(self, gateway: Callable[[], Gateway], session: Session) -> None:
        """Give one caller's skills; ``gateway`` raises once the crib is closed."""
        self._gateway, self._session = gateway, session

    async def search(self, query: str, *, limit: int = 5, search_type: SearchKind = "fts") -> tuple[SkillInfo, ...]:
        """Find the skills that fit a task, at most ``limit`` (1 to 50), the best first.

        Raises:
            BadRequest: a blank query, a wrong limit, or a pattern that cannot be used.

        """
        gateway, wanted = self._gateway(), SkillQuery(*search_of(query, search_type, limit))
        with gateway.generation.held():
            answer = await gateway.skills.search(self._session, wanted)
        others: Confidence = "low" if answer.confidence == "high" else answer.confidence
        return tuple(_info(hit, others if number else answer.confidence) for number, hit in enumerate(answer.hits))

    async def get(self, name: str, *, file: str | None = None, max_tokens: int = _WHOLE_TOKENS) -> SkillContent:
        """Return the text of a skill, or that of one of its files; what its text names becomes available by it.

        A text that takes more than ``max_tokens`` is shortened by its structure.

        Raises:
            UnknownSkill: there is none of this name, or no such file, for this caller.
            BadRequest: several skills have this name; the text says which.
            NotConfirmed: a person has to confirm it first.

        """
        gateway = self._gateway()
        wanted = GetRequest((text_of(name, "name"),), max_tokens=max_tokens, file=file, force=True)
        with gateway.generation.held():
            answer = await gateway.skills.get(self._session, wanted, Request(self._session))
        if names := answer.ambiguous.get(name):
            raise BadRequest(f"Several skills are called {name}: {', '.join(names)}.")
        if not answer.skills:
            raise UnknownSkill(f"{name}.{did_you_mean(answer.near.get(name, ()))}" if answer.near else name)
        [loaded] = answer.skills
        return SkillContent(loaded.text.name, answer.formatted, loaded.uri, loaded.skill.source, loaded.files)

    async def list(self) -> tuple[SkillInfo, ...]:
        """Return all skills that the caller may use."""
        found: list[SkillInfo] = []
        cursor: str | None = None
        gateway = self._gateway()
        with gateway.generation.held():
            skills = gateway.skills
            while True:
                page = await skills.list_skills(self._session, ListRequest(cursor=cursor, page_size=_PAGE))
                found += (_info(each) for each in page.skills)
                cursor = page.next_cursor
                if cursor is None:
                    return tuple(found)


def _info(found: FoundSkill, confidence: Confidence = "none") -> SkillInfo:
    return SkillInfo(found.name, found.trigger, found.skill.source, found.title, found.score, confidence)
