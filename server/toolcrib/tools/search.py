"""Search among tools: the weights of their texts, their names, and the order of ties.

Knows what is particular to tools; never knows how a match is found, policies, sessions or how a result is shown.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolcrib.base.cache import Recent
from toolcrib.base.model import SIDE_EFFECTS_ORDER, Tool
from toolcrib.policy.rules import Permissions
from toolcrib.search.documents import KEPT_MAX, NO_LOSSES, Found, Kind, Match, Reason, Request
from toolcrib.search.engine import Engine, SearchSettings
from toolcrib.search.english import stem
from toolcrib.search.learned_words import NOTHING_LEARNT, Vocabulary
from toolcrib.search.postings import Inverted, Text
from toolcrib.search.query import NO_ACTIONS, Actions, Verbs
from toolcrib.search.ranking import NO_LESSONS, Lessons
from toolcrib.tools.index.catalog import Catalog, Permitted
from toolcrib.tools.wording import FIELDS, Wording, Wordings

_UNLIKELY = 0.55
"""With a lower strength of the first hit, no hit is likely (ADR 43)."""

TieBreak = Callable[[Tool], tuple[int, int, int, str]]


@dataclass(frozen=True, slots=True)
class SearchRequest(Request):
    """A search for tools. ``server``: only those of the server with this key."""

    include_always: bool = False
    server: str | None = None


class Searcher:
    """Finds tools that a caller may use. Safe to use from several threads.

    ``preferred_namespaces`` are server keys, earlier ones win ties (R69).
    """

    def __init__(self, wordings: Wordings, settings: SearchSettings, preferred_namespaces: Sequence[str] = ()) -> None:
        self._wordings = wordings
        self._engine = Engine[Tool](Kind("tool", FIELDS, does=_does, unlikely=_UNLIKELY), settings)
        self._tie_break = _tie_break(preferred_namespaces)
        self._searching = Recent[tuple[tuple[int, ...], frozenset[int] | None], Permissions](KEPT_MAX)

    def search(
        self, request: SearchRequest, catalog: Catalog, permitted: Permitted, learnt: Vocabulary = NOTHING_LEARNT
    ) -> Found[Tool]:
        """Return the best matches among the tools of ``permitted``, which is part of ``catalog``.

        ``learnt`` is what usage has taught.

        Raises:
            BadRequest: a pattern cannot be used.
            StoreError: the index cannot be read.

        """
        self._searching[permitted.permissions.key, permitted.open_rows] = permitted.permissions
        documents = self._wordings.of(catalog, permitted)
        scope = _Scope(request, catalog, documents, learnt, self._tie_break)
        return self._engine.search(request, scope)

    def known(self) -> Sequence[Inverted]:
        """Return the cached indexes of tools' words."""
        return self._engine.known()

    def begin_with(self, known: Sequence[Inverted]) -> None:
        """Derive the first index from those of another searcher, possibly of another config."""
        self._engine.begin_with(known)

    def prepare(self, catalog: Catalog) -> None:
        """Prepare a new catalog for callers with the permissions of recent searches, which would otherwise wait.

        Raises:
            StoreError: the index cannot be read.

        """
        for (_, rows), permissions in self._searching.items():
            permitted = catalog.permitted(permissions) if rows is None else catalog.open_to(permissions, rows)
            self._engine.prepare(self._wordings.made(catalog, permitted))

    def is_quick(self, request: SearchRequest, catalog: Catalog, permitted: Permitted) -> bool:
        """Return whether :meth:`search` takes only a millisecond or two; otherwise it should run in a thread."""
        return self._engine.is_quick(request, self._wordings.of(catalog, permitted))


class _Scope:
    """The tools that one search may find (R26)."""

    losses = NO_LOSSES

    def __init__(
        self, request: SearchRequest, catalog: Catalog, documents: Wording, learnt: Vocabulary, tie_break: TieBreak
    ) -> None:
        self._catalog, self._tie_break, self._server = catalog, tie_break, request.server
        self._learnt = learnt
        self.documents, self._permitted = documents, documents.permitted
        self.numbers = self._permitted.part(include_always=request.include_always, server=request.server)

    @property
    def emptiness(self) -> str:
        if not self._permitted.tools:
            return "No tools are known."
        if self.numbers is None or self.numbers:
            return ""
        if self._server is not None and self._permitted.part(server=self._server) == frozenset():
            return "There is no tool of such a server."
        return "All of these tools are always loaded; include_always_loaded finds them too."

    def document(self, number: int) -> Tool:
        return self._permitted.tools[number]

    def lessons(self, query: str) -> Lessons:
        words = self._learnt.words_of(query, stem) if self._learnt.entries else ()
        if not words:
            return NO_LESSONS
        numbers = self._taught()
        return {
            word: {numbers[name]: sure for name, sure in meant.items() if self._may_find(numbers[name])}
            for word, meant in self._learnt.sureness(words, numbers).items()
        }

    def _taught(self) -> Mapping[str, int]:
        """Return the tools with lessons and their numbers, without hidden or removed ones."""
        tools = ((name, self._catalog.get(name)) for name in self._learnt.last_lessons)
        numbers = ((name, self._permitted.number_by_row.get(tool.row)) for name, tool in tools if tool)
        return {name: number for name, number in numbers if number is not None}

    def named(self, query: str, *, as_written: bool) -> Mapping[int, Reason]:
        spelled = self._inside(self._catalog.spelled(query)) if as_written else []
        return dict.fromkeys(spelled or self._inside(self._catalog.exact(query)), "exact_name")

    def begun(self, query: str) -> Iterable[int]:
        return self._inside(self._catalog.beginning(query))

    def spellings(self, number: int) -> Sequence[str]:
        tool = self._permitted.tools[number]
        return tool.public_name, f"{tool.server}.{tool.name}", tool.name

    def tie_break(self, match: Match[int]) -> tuple[int | str, ...]:
        return self._tie_break(self._permitted.tools[match.document])

    def _inside(self, tools: Iterable[Tool]) -> list[int]:
        """Return the numbers of those of ``tools`` that may be found."""
        numbers = (self._permitted.number_by_row.get(tool.row) for tool in tools)
        return [each for each in numbers if each is not None and self._may_find(each)]

    def _may_find(self, number: int) -> bool:
        return self.numbers is None or number in self.numbers


def _does(verbs: Verbs, texts: Sequence[Text]) -> Actions:
    """Return a tool's actions according to its name, its summary, and the name of its server."""
    name, summary, server = texts[0], texts[1], texts[5]
    if isinstance(name, str) and isinstance(summary, str) and isinstance(server, str):
        return verbs.done(name, summary, server)
    return NO_ACTIONS


def _tie_break(preferred_namespaces: Sequence[str]) -> TieBreak:
    """Return the sort key for tools with equal scores (R54)."""
    preference = {server: rank for rank, server in reversed([*enumerate(preferred_namespaces)])}

    def order(tool: Tool) -> tuple[int, int, int, str]:
        effects = SIDE_EFFECTS_ORDER.get(tool.side_effects) if tool.side_effects else None
        return (
            preference.get(tool.server, len(preferred_namespaces)),
            len(SIDE_EFFECTS_ORDER) if effects is None else effects,
            len(tool.public_name),
            tool.public_name,
        )

    return order
