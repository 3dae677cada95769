"""Searches the tools that one caller may use: request, ranking, what an answer shows of the hits, and its JSON."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import anyio.to_thread

from toolcrib.base.cache import Recent, RecentBy
from toolcrib.base.errors import BadRequest, StoreError
from toolcrib.base.json_values import as_list, as_object, compact
from toolcrib.base.model import SIDE_EFFECTS_ORDER, Example, JsonObject, SearchType, Tool
from toolcrib.base.text import QUERY_MAX, one_line, split_summary, truncate
from toolcrib.catalog.definitions import shortest
from toolcrib.catalog.gate import Gate
from toolcrib.catalog.index import Card
from toolcrib.catalog.learning import Learning
from toolcrib.catalog.near_tools import near_tools
from toolcrib.catalog.own_words import OwnWords
from toolcrib.catalog.snapshot import Catalog, Permitted
from toolcrib.catalog.views import FIELDS, CatalogView, CatalogViews
from toolcrib.downstream.states import DOWN
from toolcrib.policy.rules import Permissions
from toolcrib.policy.sessions import Session
from toolcrib.search.confidence import Confidence, Evidence
from toolcrib.search.documents import CACHED_MAX, NO_LOSSES, Found, Kind, Match, Reason, Request
from toolcrib.search.engine import Engine, SearchSettings
from toolcrib.search.english import stem
from toolcrib.search.learned_words import NOTHING_LEARNT, Vocabulary
from toolcrib.search.postings import Inverted, Text
from toolcrib.search.query import NO_ACTIONS, Actions, Verbs
from toolcrib.search.ranking import NO_LESSONS, Context, Lessons

if TYPE_CHECKING:
    from toolcrib.catalog.instructions import Introduction

_log = logging.getLogger(__name__)

_UNLIKELY = 0.09
"""If the first hit is less likely than this to be right, no hit is likely (ADR 43)."""

TieBreak = Callable[[Tool], tuple[int, int, int, str]]


@dataclass(frozen=True, slots=True)
class SearchRequest(Request):
    """A search for tools. ``server``: only those of the server with this key."""

    include_always: bool = False
    server: str | None = None


Detail = Literal["signature", "schema"]
"""What an answer shows of its hits."""


class Searcher:
    """Finds tools that a caller may use. Safe to use from several threads.

    ``preferred_namespaces`` are server keys, earlier ones win ties (R69).
    """

    def __init__(self, views: CatalogViews, settings: SearchSettings, preferred_namespaces: Sequence[str] = ()) -> None:
        self._views = views
        self._engine = Engine[Tool](
            Kind("tool", FIELDS, capabilities=views.capabilities, does=_does, unlikely=_UNLIKELY), settings
        )
        self._tie_break = _tie_break(preferred_namespaces)
        self._searching = Recent[tuple[tuple[int, ...], frozenset[int] | None], Permissions](CACHED_MAX)

    def search(
        self, request: SearchRequest, catalog: Catalog, permitted: Permitted, learnt: Vocabulary = NOTHING_LEARNT
    ) -> Found[Tool]:
        """Return the best matches among the tools of ``permitted``, which is part of ``catalog``.

        ``learnt`` is what usage has taught.

        Raises:
            BadRequest: a pattern cannot be used.
            StoreError: the index cannot be read.

        """
        # Remembered for :meth:`prepare`: who searched lately will search a new catalog too.
        self._searching[permitted.permissions.key, permitted.open_rows] = permitted.permissions
        documents = self._views.view(catalog, permitted)
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
            self._engine.prepare(self._views.build(catalog, permitted))

    def is_quick(self, request: SearchRequest, catalog: Catalog, permitted: Permitted) -> bool:
        """Return whether :meth:`search` takes only a millisecond or two; otherwise it should run in a thread."""
        view = self._views.view(catalog, permitted)
        return view.has_context and self._engine.is_quick(request, view)


class _Scope:
    """The tools that one search may find (R26)."""

    losses = NO_LOSSES

    def __init__(
        self, request: SearchRequest, catalog: Catalog, documents: CatalogView, learnt: Vocabulary, tie_break: TieBreak
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

    @property
    def context(self) -> Context | None:
        return self.documents.context

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
        return verbs.performed(name, summary, server)
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


_SHORT_MAX, _LONG_MAX = 100, 600
"""Maximum length of a description, brief and full."""
_EXAMPLE_MIN, _EXAMPLE_MAX, _HITS_ROOM = 120, 240, 1200
"""Lengths of the example in a brief answer: the room that it always has, the most, and the room of all hits with it."""
_VALUE_LENGTHS = (80, 40, 20)
"""Maximum lengths of the texts in an example that has to be shortened, tried in turn."""
_BRIEFS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Shown:
    """The shown part of a tool's definition: its signature and a short example, or its schema and all examples.

    ``returns`` is what its results are in a program, which :func:`without_returns` leaves out.
    """

    description: str
    returns: str
    signature: str | None = None
    input_schema: JsonObject | None = None
    examples: tuple[Example, ...] = ()

    def as_line(self, name: str) -> str:
        """Return the signature, or else the name, of the tool that is shown, and what it returns."""
        return " -> ".join(filter(None, (self.signature or name, self.returns)))


@dataclass(frozen=True, slots=True)
class FoundTool:
    """One search hit, with the requested level of detail.

    ``score`` is in [0, 1] and comparable only within one answer; ``status`` is its server's state, if that matters.
    ``owner`` is the skill that makes the tool available, if it is scoped to skills.
    """

    tool: Tool
    shown: Shown
    score: float
    match_type: str
    activated: bool
    status: str | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The answer of ``tool_search``. ``usage`` says how to call the hits, ``note`` why there are no more.

    ``introductions`` are what servers of hits say of themselves. ``evidence`` is what ``confidence`` is derived from,
    comparable between queries.
    """

    hits: tuple[FoundTool, ...]
    query: str
    effective: SearchType
    total_deferred: int
    confidence: Confidence
    usage: str | None
    note: str | None
    evidence: Evidence
    introductions: "tuple[Introduction, ...]" = ()


def search_json(answer: SearchAnswer) -> JsonObject:
    """Return the structured answer of ``tool_search``."""
    said = {"usage": answer.usage, "note": answer.note}
    servers = [{"server": each.server, "says": each.text} for each in answer.introductions]
    return {
        "tools": [_found(hit) for hit in answer.hits],
        "query": answer.query,
        "search_type": answer.effective.value,
        "total_deferred": answer.total_deferred,
        "confidence": answer.confidence,
        **{key: text for key, text in said.items() if text},
        **({"servers": servers} if servers else {}),
    }


_WHICH: Mapping[Confidence, str] = MappingProxyType(
    {
        "high": "Call one now by name with {door}",
        "low": "Call the one that fits by name with {door}",
        "none": "Search in other words, or call one that does fit by name with {door}",
    }
)
"""Which of the hits to call, as surely as the answer says it of them."""


def without_returns(answer: SearchAnswer) -> SearchAnswer:
    """Return an answer that does not say what results are in programs, where there are none."""
    hits = [replace(hit, shown=replace(hit.shown, returns="")) for hit in answer.hits]
    return replace(answer, hits=tuple(hits))


def usage(hits: Sequence[FoundTool], confidence: Confidence, *, split: bool, listed: bool) -> str | None:
    """Return how to call the hits; None if no hit can be called now.

    It asks for no more than ``confidence`` promises. Names that some hosts use too are marked as toolcrib's.
    ``split``: read-only tools have a call tool of their own. ``listed``: called tools are added to the client's list.
    """
    reading = [hit.tool.read_only for hit in hits if hit.status not in DOWN]
    # Servers that are down can start again, but a model must not be told to call them now.
    if not reading:
        return None
    if not split or not any(reading):
        door = "toolcrib's tool_call"
    elif all(reading):
        door = "toolcrib's tool_call_read"
    else:
        door = "toolcrib's tool_call_read if marked read, else tool_call"
    return f"{_WHICH[confidence].format(door=door)}{'; a used tool is listed too' if listed else ''}."


class Briefs:
    """Reads the brief form of tools, by row; deleted rows are omitted.

    The result is cached for the life of its wording: searches find the same tools repeatedly.
    """

    def __init__(self) -> None:
        self._briefs = RecentBy[CatalogView, int, Shown](_BRIEFS_MAX)

    def read(self, view: CatalogView, rows: Sequence[int]) -> Mapping[int, Shown]:
        """Return signatures, and about the first sentence of descriptions, without hidden characters."""
        briefs = self._briefs[view]
        known: dict[int, Shown] = {}
        for row in rows:
            with suppress(KeyError):
                known[row] = briefs[row]
        unread = [row for row in rows if row not in known]
        if not unread:
            return known
        read = {row: _brief(card) for row, card in view.cards(unread).items()}
        for row, shown in read.items():
            briefs[row] = shown
        return {**known, **read}


def whole(view: CatalogView, rows: Sequence[int]) -> Mapping[int, Shown]:
    """Return input schemas, examples, and longer descriptions, without hidden characters, by row."""
    read = view.described(rows) if rows else {}
    return {row: _whole(card, definition) for row, (definition, card) in read.items()}


def found_tools(
    found: Found[Tool],
    shown: Mapping[int, Shown],
    activated: Collection[str],
    owners: Mapping[int, str],
    status_of: Callable[[Tool], str | None],
) -> tuple[FoundTool, ...]:
    """Return the hits with their shown parts: in a brief answer, only the first has an example."""
    matches = [match for match in found.matches if match.document.row in shown]
    briefs = [shown[match.document.row] for match in matches]
    used = sum(len(each.signature or "") + len(each.description) for each in briefs)
    room = min(max(_HITS_ROOM - used, _EXAMPLE_MIN), _EXAMPLE_MAX)
    return tuple(
        FoundTool(
            match.document,
            _with_brief_example(brief, room if place == 0 else 0),
            match.score,
            match.match_type.value,
            activated=match.document.public_name in activated,
            status=status_of(match.document),
            owner=owners.get(match.document.row),
        )
        for place, (match, brief) in enumerate(zip(matches, briefs, strict=True))
    )


def _with_brief_example(shown: Shown, room: int) -> Shown:
    """Return what is shown with as much of its example as has room, if it is brief."""
    if not shown.signature or not shown.examples:
        return shown
    fitting = (shortened(each, room) for each in shown.examples if room)
    return replace(shown, examples=tuple(filter(None, fitting)))


def shortened(example: Example, room: int) -> Example | None:
    """Return an example whose arguments take at most ``room`` characters as JSON, with shorter values if need be.

    None if it is too long even so: a parameter that is left out would be more wrong than no example.
    """
    if len(compact(example.args)) <= room:
        return example
    for longest in _VALUE_LENGTHS:
        args = {key: _shorter(value, longest) for key, value in example.args.items()}
        if len(compact(args)) <= room:
            return replace(example, args=args)
    return None


def _shorter(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return truncate(value, longest)
    if isinstance(value, list):
        return [_shorter(each, longest) for each in as_list(value)[:1]]
    if isinstance(value, dict):
        return {key: _shorter(each, longest) for key, each in as_object(value).items()}
    return value


def _brief(card: Card) -> Shown:
    summary, _rest = split_summary(card.description)
    example = shortest(card.examples)
    examples = (replace(example, description=""),) if example else ()
    return Shown(truncate(one_line(summary), _SHORT_MAX), card.returns, card.signature, examples=examples)


def _whole(card: Card, definition: JsonObject) -> Shown:
    description = truncate(one_line(card.description), _LONG_MAX)
    return Shown(description, card.returns, input_schema=definition["inputSchema"], examples=card.examples)


def _found(hit: FoundTool) -> JsonObject:
    """Return one hit, without empty members."""
    tool = hit.tool
    shown: dict[str, Any] = {
        "name": tool.public_name,
        "description": hit.shown.description,
        "score": hit.score,
        "match_type": hit.match_type,
        "loading_mode": tool.loading_mode.value,
        # A name that begins with its server need not repeat it: five hits have to fit into 500 tokens.
        "server": None if tool.public_name.startswith(f"{tool.server}__") else tool.server,
        "side_effects": tool.side_effects.value if tool.side_effects else None,
        "activated": hit.activated or None,
        "signature": hit.shown.as_line(tool.public_name) if hit.shown.signature else None,
        "input_schema": hit.shown.input_schema,
        "returns": None if hit.shown.signature else hit.shown.returns or None,
        "examples": [_example(each) for each in hit.shown.examples] or None,
        "status": hit.status,
        "owner": hit.owner,
    }
    return {key: value for key, value in shown.items() if value is not None}


def _example(example: Example) -> JsonObject:
    return {"args": dict(example.args), **({"description": example.description} if example.description else {})}


def refuse_blank(request: SearchRequest) -> None:
    """Reject a blank query.

    Raises:
        BadRequest: it is blank.

    """
    if not request.query.strip():
        raise BadRequest("'query' is blank. Say in a few words what the tool should do, e.g. 'create issue'.")


class ToolFinder:
    """Finds tools that a session's caller may use, and returns their texts as the caller may read them."""

    def __init__(
        self, searcher: Searcher, gate: Gate, views: CatalogViews, learning: Learning, own_words: OwnWords
    ) -> None:
        self.searcher, self._gate, self._views = searcher, gate, views
        self._learning, self._own_words = learning, own_words
        self._briefs = Briefs()

    def view(self, session: Session, catalog: Catalog) -> CatalogView:
        """Return the wording for the session's caller: without names of tools that the caller may not use."""
        return self._views.view(catalog, self._gate.permitted(session, catalog))

    async def find(
        self,
        session: Session,
        request: SearchRequest,
        catalog: Catalog,
        detail: Detail,
        status_of: Callable[[Tool], str | None],
    ) -> SearchAnswer:
        """Return the hits; ``status_of`` returns the state of a tool's server, if that matters.

        Raises:
            BadRequest: a blank query, or a regex that cannot be used.

        """
        refuse_blank(request)
        self._own_words.look()
        view = self.view(session, catalog)
        found, shown = await self._found(request, catalog, view, detail, self._learning.vocabulary(session))
        activated, owners = self._gate.activated(session, catalog), self._gate.owners(session, catalog)
        hits = found_tools(found, shown, activated, owners, status_of)
        return SearchAnswer(
            hits=hits,
            query=request.query[:QUERY_MAX],
            effective=request.search_type,
            # Counted after the policy: a count must not reveal that something is hidden.
            total_deferred=view.permitted.deferred_count,
            confidence=found.confidence,
            usage=usage(
                hits,
                found.confidence,
                split=self._gate.splits_calls,
                listed=session.growing and session.client_profile.follows,
            ),
            note=found.note,
            evidence=found.evidence,
        )

    def reuse_index_of(self, before: "ToolFinder") -> None:
        """Derive the next search index from that of another config's finder."""
        self.searcher.begin_with(before.searcher.known())

    def prepare(self, catalog: Catalog) -> None:
        """Prepare what the next search in a new catalog would wait for; if that fails, the search tries again."""
        try:
            self.searcher.prepare(catalog)
        except StoreError as error:
            _log.warning("the next search has to read what is new by itself: %s", error)

    async def near_names(self, session: Session, name: str, catalog: Catalog) -> str:
        """Return up to three permitted names spelled like ``name``, as the end of an error text."""
        names = await anyio.to_thread.run_sync(near_tools, name, self._gate.permitted(session, catalog).tools)
        return f". Similar names: {', '.join(names)}" if names else ""

    async def _found(
        self, request: SearchRequest, catalog: Catalog, view: CatalogView, detail: Detail, learnt: Vocabulary
    ) -> tuple[Found[Tool], Mapping[int, Shown]]:
        """Search, and read what is shown of the hits; in a worker thread, unless switching would take longer."""

        def search() -> tuple[Found[Tool], Mapping[int, Shown]]:
            found = self.searcher.search(request, catalog, view.permitted, learnt)
            return found, self._shown(found, view, detail)

        # Switching to a thread takes longer than a quick search, and waits for the threads that are busy.
        quick = self.searcher.is_quick(request, catalog, view.permitted)
        return search() if quick else await anyio.to_thread.run_sync(search)

    def _shown(self, found: Found[Tool], view: CatalogView, detail: Detail) -> Mapping[int, Shown]:
        """Read the requested detail of the hits, by row."""
        rows = [match.document.row for match in found.matches]
        return whole(view, rows) if detail == "schema" else self._briefs.read(view, rows)
