"""What a search needs to know of the documents that it searches, as protocols for the kinds of documents.

Knows documents by their numbers only; never knows what one is, who may see it or where its texts are kept.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, TypeVar

from toolcrib.search.actions import Actions, Verbs
from toolcrib.search.bm25 import Field
from toolcrib.search.inverted import Does, Text, Version, Worded
from toolcrib.search.lifting import Lessons
from toolcrib.search.matches import Match, Reason
from toolcrib.search.postings import Postings

T_co = TypeVar("T_co", covariant=True)

KEPT_MAX = 4
"""Number of document sets for which postings, texts and vectors are cached."""


NO_LOSSES: Mapping[int, float] = MappingProxyType({})
"""Only words count."""


class Documents(Protocol):
    """All documents visible to one caller, as one immutable value, used as the cache key for what is derived from it.

    Words, statistics and vectors come from these documents alone, as this caller may read them. Callers with the same
    rights should share the value, or everything is computed twice. Deleted rows are omitted from each result.
    """

    @property
    def in_order(self) -> Sequence[int]:
        """The row of each document; its index here is its number."""
        ...

    def __hash__(self) -> int:
        """Distinguish it from every other such set."""
        ...

    def versions(self) -> Sequence[Version | None]:
        """Return by number a value that identifies the words of each document; None if they cannot be identified."""
        ...

    def words(self, rows: Iterable[int]) -> Mapping[int, Worded]:
        """Return by row the text of each of the kind's fields, the name first, with the version of that text."""
        ...

    def stored(self, does: Does | None) -> AbstractContextManager[Postings] | None:
        """Open postings of these documents that are stored on disk, for one query; None: there are none.

        ``does`` derives a document's actions from its texts.
        """
        ...

    def texts(self) -> Mapping[int, Sequence[str]]:
        """Return by row the texts that a pattern is tried on besides names."""
        ...

    def meanings(self, stored: Mapping[int, str]) -> Mapping[int, str]:
        """Return by row the text to embed for this caller, given ``stored``, the text without regard to callers."""
        ...


class Scope(Protocol[T_co]):
    """The documents that one search may find, and their names."""

    @property
    def documents(self) -> Documents:
        """All documents visible to the caller."""
        ...

    @property
    def numbers(self) -> frozenset[int] | None:
        """The numbers of those that this search may find; None: all."""
        ...

    @property
    def emptiness(self) -> str:
        """Why there is nothing to find, as a sentence for the caller; empty if there is something."""
        ...

    @property
    def losses(self) -> Mapping[int, float]:
        """Score reductions for reasons other than words, by number; documents without one are omitted."""
        ...

    def lessons(self, query: str) -> Lessons:
        """Return what usage has taught about the words of a query, for documents that this search may find."""
        ...

    def document(self, number: int) -> T_co:
        """Return the document with this number."""
        ...

    def named(self, query: str, *, as_written: bool) -> Mapping[int, Reason]:
        """Return the findable documents that the query names, each with the reason.

        ``as_written``: if names are spelled exactly like this, only those count.
        """
        ...

    def begun(self, query: str) -> Iterable[int]:
        """Return the findable documents whose name begins with the query, in any order."""
        ...

    def spellings(self, number: int) -> Sequence[str]:
        """Return every form of a document's name that a pattern is tried on."""
        ...

    def tie_break(self, match: Match[int]) -> tuple[int | str, ...]:
        """Return a sort key for matches of equal score and reason; their documents are numbers here."""
        ...


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of documents. ``noun`` is the word for one of them in notes.

    ``fields`` are its text fields. ``does`` derives a document's actions from its words, if they tell. If the strength
    of the first match is below ``unlikely``, no match is likely. ``plain_beginnings``: name prefixes rank before other
    text matches even if the query may be an ordinary word.
    """

    noun: str
    fields: Sequence[Field]
    plain_beginnings: bool = False
    unlikely: float = 0.0
    does: Callable[[Verbs, Sequence[Text]], Actions] | None = None
