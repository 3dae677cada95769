"""Plain texts to search, for the tests of what tools and skills share: documents with a name and what is said of it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from toolcrib.base.model import SearchType
from toolcrib.base.names import Spellings
from toolcrib.base.text import search_text, spelling_key
from toolcrib.search.documents import Found, Kind, Match, Reason, Request
from toolcrib.search.engine import Engine, SearchSettings
from toolcrib.search.postings import Counting, Does, Text, Worded, nothing
from toolcrib.search.ranking import Context, Field, FieldedBm25, Lessons
from toolcrib.search.semantic import Semantic

SAID = {
    "create_issue": "Opens a new one in a project.",
    "create_issue_comment": "Answers to one.",
    "list_issues": "Shows all issues of a project.",
    "list_files": "Shows all files of a folder.",
    "merge_branch": "Joins two branches of a project.",
    "export": "Writes a list of everything to a file.",
}


def bm25_of(
    documents: Iterable[Sequence[Text]], stem: Callable[[str], str], fields: Sequence[Field], does: Does | None = None
) -> FieldedBm25:
    """Return the postings of some documents that nothing is known of."""
    texts = [*documents]
    common = {place: field.common for place, field in enumerate(fields) if field.common < 1}
    none = nothing(Counting(stem, len(fields), common, does))
    inverted, slots = none.derive([None] * len(texts), lambda numbers: [Worded(texts[number]) for number in numbers])
    return FieldedBm25(inverted, slots, fields)


@dataclass(eq=False)
class Texts:
    """Some documents: a name and what is said of it, in rows that are not their numbers.

    ``read`` has the rows whose words were asked for; ``gone`` is one that is not there.
    """

    said: Mapping[str, str]
    read: list[int] = field(default_factory=list[int])
    gone: int | None = None

    @property
    def names(self) -> Sequence[str]:
        return tuple(self.said)

    @property
    def in_order(self) -> Sequence[int]:
        return tuple(100 + number for number in range(len(self.said)))

    def versions(self) -> Sequence[None]:
        return [None] * len(self.said)

    def words(self, rows: Iterable[int]) -> Mapping[int, Worded]:
        asked = set(rows)
        self.read += sorted(asked)
        return {row: Worded(tuple(map(search_text, pair))) for row, pair in self._there() if row in asked}

    def stored(self, does: object) -> None:
        pass

    def texts(self) -> Mapping[int, Sequence[str]]:
        return {row: (said,) for row, (_, said) in self._there()}

    def embedded_versions(self) -> Sequence[None]:
        return [None] * len(self.said)

    def texts_to_embed(self, stored: Mapping[int, str]) -> Mapping[int, str]:
        return stored

    def _there(self) -> Iterator[tuple[int, tuple[str, str]]]:
        return ((row, pair) for row, pair in zip(self.in_order, self.said.items(), strict=True) if row != self.gone)


@dataclass
class Scope:
    documents: Texts
    numbers: frozenset[int] | None = None
    emptiness: str = ""
    losses: Mapping[int, float] = field(default_factory=dict[int, float])
    taught: Lessons = field(default_factory=dict[str, Mapping[int, float]])
    context: Context | None = None

    def lessons(self, query: str) -> Lessons:
        return {word: self.taught.get(word, {}) for word in search_text(query).split()} if self.taught else {}

    def document(self, number: int) -> str:
        return self.documents.names[number]

    def named(self, query: str, *, as_written: bool) -> Mapping[int, Reason]:
        same = [name for name in self.documents.names if as_written and name == query]
        called = same or self._spellings.get(spelling_key(query), ())
        return {number: "exact_name" for number in map(self.documents.names.index, called) if self._may(number)}

    def begun(self, query: str) -> Iterable[int]:
        return filter(self._may, map(self.documents.names.index, self._spellings.beginning(query)))

    def spellings(self, number: int) -> Sequence[str]:
        return (self.documents.names[number],)

    def tie_break(self, match: Match[int]) -> tuple[int | str, ...]:
        return (self.documents.names[match.document],)

    @property
    def _spellings(self) -> Spellings[str]:
        return Spellings((spelling_key(name), name) for name in self.documents.names)

    def _may(self, number: int) -> bool:
        return self.numbers is None or number in self.numbers


class World:
    """An engine over some texts."""

    def __init__(
        self, said: Mapping[str, str], *, plain_beginnings: bool = False, semantic: Semantic | None = None
    ) -> None:
        self.documents = Texts(said)
        kind = Kind("text", (Field(3, 0.4), Field(1, 0.3)), plain_beginnings)
        self.engine: Engine[str] = Engine(kind, SearchSettings(semantic=semantic))

    def search(self, query: str, kind: str = "fts", *, limit: int = 8, among: Iterable[str] | None = None):
        numbers = None if among is None else frozenset(map(self.documents.names.index, among))
        request = Request(query, SearchType(kind), limit)
        return self.engine.search(request, Scope(self.documents, numbers))


def names(found: Found[str]) -> list[str]:
    return [match.document for match in found.matches]


def reasons(found: Found[str]) -> list[Reason]:
    return [match.reason for match in found.matches]
