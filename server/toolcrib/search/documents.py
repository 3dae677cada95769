"""What a search needs to know of the documents that it searches, as protocols for the kinds of documents.

Knows documents by their numbers only; never knows what one is, who may see it or where its texts are kept.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, TypeVar

from toolcrib.search.actions import Actions, Verbs
from toolcrib.search.bm25 import Does, Field, Text
from toolcrib.search.lifting import Lessons
from toolcrib.search.matches import Match, Reason
from toolcrib.search.postings import Postings

T_co = TypeVar("T_co", covariant=True)

KEPT_MAX = 4
"""How many sets of documents have their postings, texts and vectors kept."""


NO_LOSSES: Mapping[int, float] = MappingProxyType({})
"""Nothing counts but words."""


class Documents(Protocol):
    """All that one caller may see, as one immutable value, which is the key for what is made from it.

    Words, statistics and vectors come from these documents alone, as this caller may read them. Callers with the same
    rights should share the value, or everything is made twice. Rows that are gone are left out of each answer.
    """

    @property
    def in_order(self) -> Sequence[int]:
        """The row of each document; its place here is its number."""
        ...

    def __hash__(self) -> int:
        """Tell it from every other such set."""
        ...

    def words(self) -> Mapping[int, Sequence[Text]]:
        """Return by row what each of the kind's fields has to search in, the name first."""
        ...

    def stored(self, does: Does | None) -> AbstractContextManager[Postings] | None:
        """Open the postings of these documents for one query where they need not be in memory; None: there are none.

        ``does`` tells of a document's texts what it does.
        """
        ...

    def texts(self) -> Mapping[int, Sequence[str]]:
        """Return by row what a pattern is tried on besides names."""
        ...

    def meanings(self, stored: Mapping[int, str]) -> Mapping[int, str]:
        """Return by row what each document means to this caller, where ``stored`` is what it means to anybody."""
        ...


class Scope(Protocol[T_co]):
    """The documents that one search may find, and how they are called."""

    @property
    def documents(self) -> Documents:
        """All that the caller may see."""
        ...

    @property
    def numbers(self) -> frozenset[int] | None:
        """The numbers of those among them that this search may find; None: all of them."""
        ...

    @property
    def emptiness(self) -> str:
        """Why there is nothing to find, in a sentence for the caller; empty where there is something."""
        ...

    @property
    def losses(self) -> Mapping[int, float]:
        """What documents lose of their score for a reason outside their words; those without loss are left out."""
        ...

    def lessons(self, query: str) -> Lessons:
        """Return what use has taught about the words of a query, of the documents that this search may find."""
        ...

    def document(self, number: int) -> T_co:
        """Return the document with this number."""
        ...

    def named(self, query: str, *, as_written: bool) -> Mapping[int, Reason]:
        """Return the documents that the query names, each with the reason; all of them may be found.

        ``as_written``: where names are spelled exactly like this, only those count.
        """
        ...

    def begun(self, query: str) -> Iterable[int]:
        """Return the documents whose name begins with the query, in any order; all of them may be found."""
        ...

    def spellings(self, number: int) -> Sequence[str]:
        """Return every form of a document's name that a pattern is tried on."""
        ...

    def tie_break(self, match: Match[int]) -> tuple[int | str, ...]:
        """Return what orders matches, whose documents are numbers here, of one score and reason."""
        ...


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of documents. ``noun`` is what a note calls one of them.

    ``fields`` are the kinds of words that it has. ``does`` tells of a document's words what it does, where they say so.
    Where less than ``unlikely`` speaks for the first match, none is likely.
    ``plain_beginnings``: the beginning of a name comes before what was
    found by words even where it may be nothing but a plain word.
    """

    noun: str
    fields: Sequence[Field]
    plain_beginnings: bool = False
    unlikely: float = 0.0
    does: Callable[[Verbs, Sequence[Text]], Actions] | None = None
