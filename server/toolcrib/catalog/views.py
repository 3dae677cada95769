"""Gives callers their view of the catalog: the texts of tools, read and searched without names of denied tools."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import chain
from types import MappingProxyType

from toolcrib.base.cache import Recent
from toolcrib.base.json_decoding import collector_paused
from toolcrib.base.model import Example, JsonObject, Tool
from toolcrib.base.patterns import SUBJECT_MAX
from toolcrib.base.text import words
from toolcrib.catalog.definitions import (
    Path,
    allowed_in,
    listed_definition,
    said,
    texts_in,
    texts_in_value,
    with_text,
    without_values,
)
from toolcrib.catalog.denied_names import NameMasker
from toolcrib.catalog.gate import NameMaskers
from toolcrib.catalog.index import TEXT_COLUMNS, Card, ToolTexts, Versions, description_of
from toolcrib.catalog.outputs import output_of
from toolcrib.catalog.own_words import NO_ASKING, AskingByTool
from toolcrib.catalog.parameters import signature
from toolcrib.catalog.snapshot import Catalog, Permitted
from toolcrib.config.schema import ToolExamplesSection
from toolcrib.search.capabilities import Capabilities
from toolcrib.search.disk_postings import StoredPostings
from toolcrib.search.postings import Does, Postings, Version, Worded
from toolcrib.search.ranking import Context, Field
from toolcrib.storage.store import damaged_rows

FIELDS = (
    Field(3, 0.4),  # name
    Field(2, 0.3),  # summary
    Field(0.8, 0.5),  # description
    Field(1.2, 0.6, 0.3),  # parameters
    Field(0.5, 0.5, 0.3),  # descriptions of parameters
    Field(0.7, 0.3),  # server
    Field(0.7, 0.3),  # tags
    Field(0.5, 0.3),  # ways of asking
    Field(0.48, 0.2, aside=True),  # examples in descriptions of parameters
)
"""The weight of each full-text column of a tool, and of the ways of asking for what it does (ADR 62).

Measured on four catalogs; quality is flat around these values.
"""

_REMEMBERED_MAX = 8192
_VIEWS_MAX = 64
_NO_WORDS = ("",) * len(FIELDS)
_NO_INSTRUCTIONS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Asked:
    """The rows to read, with the versions that they must have to be shown.

    ``naming`` has, for those that name a denied tool, the possible tool names in their texts, as stored.
    """

    rows: AbstractSet[int]
    versions: Versions
    naming: Mapping[int, str]


class CatalogView:
    """Reads the index of one catalog for callers with equal permissions; its changes to tools are cached.

    If nothing is denied to them the index is read unchanged. Else rows that are not those of the catalog count as
    deleted: a list that is stored but not published yet may name tools of which the catalog does not know that they are
    denied, and in a new file the same numbers belong to other tools. Every method raises StoreError if it cannot be
    read; reading more than a few rows belongs in a worker thread. Two instances of the same tools for the same callers
    are equal, if the same requests were written for tools (``own``).
    """

    def __init__(
        self,
        index: ToolTexts,
        permitted: Permitted,
        masker: NameMasker,
        postings: StoredPostings | None,
        own: AskingByTool = NO_ASKING,
        instructions: Mapping[str, str] = _NO_INSTRUCTIONS,
    ) -> None:
        self._instructions = instructions
        self._index, self.permitted, self.masker, self._postings = index, permitted, masker, postings
        self.own = own
        self.in_order, self.number_by_row = permitted.in_order, permitted.number_by_row
        self._names_denied = lru_cache(_REMEMBERED_MAX)(partial(_names_denied, masker))
        self._edits: dict[int, tuple[tuple[Path, str], ...]] = {}
        self._briefs: dict[int, tuple[str, str, str]] = {}
        self._reduced: dict[int, JsonObject | None] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CatalogView) and other.permitted is self.permitted and other.own is self.own

    def __hash__(self) -> int:
        return hash(self.permitted)

    # -- what is read ----------------------------------------------------------------------------

    def listed(
        self, tools: Sequence[Tool], section: ToolExamplesSection, owners: Mapping[int, str]
    ) -> list[JsonObject]:
        """Return the definitions of some tools as shown to a client; tools removed meanwhile are omitted.

        ``owners`` are the skills that make some of them available, by row.
        """
        with collector_paused():
            described = self.described(tool.row for tool in tools)
            shown = (tool for tool in tools if tool.row in described)
            return [listed_definition(tool, *described[tool.row], section, owners.get(tool.row)) for tool in shown]

    def described(self, rows: Iterable[int]) -> dict[int, tuple[JsonObject, Card]]:
        """Return whole definitions, and what search results show, by row; deleted rows are omitted."""
        asked = self._asked(rows)
        found = self._index.shown(asked.rows, asked.versions)
        for row in found.keys() & asked.naming.keys():
            definition, card = found[row]
            cleaned = self._definition(row, definition)
            found[row] = cleaned, self._card(card, *self._brief(row, cleaned))
        return found

    def cards(self, rows: Iterable[int]) -> dict[int, Card]:
        """Return what search results show, by row; deleted rows are omitted."""
        asked = self._asked(rows)
        cards = self._index.cards(asked.rows, asked.versions)
        naming = cards.keys() & asked.naming.keys()
        unknown = naming - self._briefs.keys()
        for row, definition in (self._index.definitions(unknown, asked.versions) if unknown else {}).items():
            self._briefs[row] = self._brief(row, self._definition(row, definition))
        for row in naming:
            cards[row] = self._card(cards[row], *self._briefs.get(row, ("", "", "")))
        return cards

    def reduced_schema(self, row: int) -> JsonObject | None:
        """Return a tool's input schema without values that name denied tools; None if it allows none."""
        if row not in self._reduced:
            asked = self._asked([row])
            stored = self._index.definitions(asked.naming, asked.versions).get(row)
            allows_some = stored is not None and any(map(self._is_denied_value, allowed_in(stored["inputSchema"])))
            reduced = without_values(stored, self._is_denied_value) if stored and allows_some else None
            self._reduced[row] = reduced and reduced["inputSchema"]
        return self._reduced[row]

    # -- what is searched ------------------------------------------------------------------------

    def versions(self) -> list[Version | None]:
        """Return an identifier of the words of each permitted tool; None if only these callers read them like that.

        They read another version of a tool if it names a denied one, which depends on all tools.
        """
        return [None if version is None else self._version(version) for version in self.embedded_versions()]

    def words(self, rows: Iterable[int]) -> dict[int, Worded]:
        """Return the searchable words of permitted tools by row, one text per full-text column."""
        asked = self._asked(rows)
        found = self._index.words(asked.rows, asked.versions)
        reworded = self._reworded(found, asked.naming)
        return {
            row: Worded(reworded[row])
            if row in reworded
            else Worded(self._fields(version, texts), self._version(version))
            for row, (version, texts) in found.items()
        }

    def _version(self, fingerprint: Version) -> Version:
        """Return an identifier of the words of the tool with this fingerprint, with those of its own requests."""
        version, own = self._index.reading.version(fingerprint), self.own.get(fingerprint)
        return f"{version}{own.digest}" if own else version

    def _fields(self, fingerprint: Version, texts: Sequence[str]) -> tuple[str, ...]:
        """Return the words of a tool; requests that were written for it are more ways of asking."""
        fields, own = self._index.reading.fields(texts), self.own.get(fingerprint)
        if not own:
            return fields
        *others, ways, examples = fields
        return (*others, f"{ways} {own.words}", examples)

    @property
    def hides_nothing(self) -> bool:
        """Whether nothing is denied to these callers."""
        return self.masker.hides_nothing

    def edited(self) -> dict[int, tuple[str, ...]]:
        """Return the same for only those tools that these callers read in another version than stored.

        A tool whose row is not the one in their catalog has no words.
        """
        if self.masker.hides_nothing:
            return {}
        asked = self._asked(self.in_order)
        found = self._index.words(asked.naming, asked.versions) if asked.naming else {}
        unread = chain(asked.naming, (row for row in self.in_order if row not in asked.rows))
        return {**dict.fromkeys(unread, _NO_WORDS), **self._reworded(found, asked.naming)}

    @cached_property
    def context(self) -> Context | None:
        """The words in the instructions of servers of which these callers may use a tool; None if there are none."""
        if not self._instructions:
            return None
        from toolcrib.catalog.instructions import words_about  # noqa: PLC0415 - most servers have none

        return words_about(self._instructions, self.permitted.tools, self.masker)

    @property
    def has_context(self) -> bool:
        """Whether :attr:`context` is there without the work of reading it."""
        return not self._instructions or "context" in vars(self)

    def stored(self, does: Does | None) -> AbstractContextManager[Postings] | None:
        """Open the stored postings of all permitted tools, for one query; None if they are not stored."""
        return self._postings.opened(self, does) if self._postings and self._postings.available else None

    def _reworded(
        self, found: Mapping[int, tuple[Version, tuple[str, ...]]], naming: Mapping[int, str]
    ) -> dict[int, tuple[str, ...]]:
        """Return the words of those tools that name a denied one, without these names."""
        reworded: dict[int, tuple[str, ...]] = {}
        for row in found.keys() & naming.keys():
            candidates = _candidates(naming[row])
            columns = zip(TEXT_COLUMNS, found[row][1], strict=True)
            texts = [self._without(text, candidates.get(column, ())) for column, text in columns]
            reworded[row] = self._index.reading.fields(texts)
        return reworded

    def texts(self) -> dict[int, tuple[str, ...]]:
        """Return the texts that a pattern is tried on besides names, of all permitted tools by row (R237)."""
        asked = self._asked(self.in_order)
        found = self._index.texts(asked.rows - asked.naming.keys(), asked.versions)
        for row, card in (self.cards(asked.naming) if asked.naming else {}).items():
            found[row] = (card.description[:SUBJECT_MAX], *card.tags)
        return found

    def embedded_versions(self) -> list[Version | None]:
        """Return the fingerprint of each permitted tool; None if only these callers read its text like that."""
        tools = self.permitted.tools
        if self.masker.hides_nothing:
            return [tool.fingerprint for tool in tools]
        asked = self._asked(self.in_order)
        standing = asked.rows - asked.naming.keys()
        return [tool.fingerprint if tool.row in standing else None for tool in tools]

    def texts_to_embed(self, stored: Mapping[int, str]) -> Mapping[int, str]:
        """Return the text to embed for each tool, given ``stored``, the text for callers to whom nothing is denied."""
        if self.masker.hides_nothing:
            return stored
        asked = self._asked(stored)
        return {row: self._clean(stored[row]) if row in asked.naming else stored[row] for row in asked.rows}

    # -- what is changed -------------------------------------------------------------------------

    def _asked(self, rows: Iterable[int]) -> _Asked:
        """Return what to read of these rows."""
        if self.masker.hides_nothing:
            return _Asked(dict.fromkeys(rows).keys(), None, {})
        versions: dict[int, Version] = {}
        naming: dict[int, str] = {}
        for row, (version, told) in self._index.versions(rows).items():
            # A stored list may be newer than this catalog, which does not know yet what it denies.
            if version == self._fingerprint(row):
                versions[row] = version
                if self._names_denied(told):
                    naming[row] = told
        return _Asked(versions.keys(), versions, naming)

    def _fingerprint(self, row: int) -> Version | None:
        number = self.number_by_row.get(row)
        return None if number is None else self.permitted.tools[number].fingerprint

    def _definition(self, row: int, definition: JsonObject) -> JsonObject:
        edits = self._edits.get(row)
        if edits is None:
            cleaned = ((path, text, self._clean(text)) for path, text in texts_in(definition))
            edits = self._edits[row] = tuple((path, clean) for path, text, clean in cleaned if clean != text)
        for path, after in edits:
            definition = with_text(definition, path, after)
        return without_values(definition, self._is_denied_value)

    def _is_denied_value(self, value: str) -> bool:
        from toolcrib.catalog.name_detection import may_name_a_tool  # noqa: PLC0415 - no start waits for its patterns

        return may_name_a_tool(value) and self.masker.denied.is_value(value)

    def _brief(self, row: int, definition: JsonObject) -> tuple[str, str, str]:
        """Return the description and the signature of a tool with this definition, and what it returns."""
        number = self.number_by_row.get(row)
        name = "" if number is None else self.permitted.tools[number].public_name
        returns = output_of(definition.get("outputSchema")).shown
        return description_of(*said(definition)), signature(name, definition["inputSchema"]), returns

    def _card(self, card: Card, description: str, shown_signature: str, returns: str) -> Card:
        tags = tuple(tag for tag in card.tags if self._clean(tag) == tag)
        examples = tuple(map(self._example, card.examples))
        return Card(description, shown_signature, returns, tags, examples)

    def _example(self, example: Example) -> Example:
        args = dict(example.args)
        for path, text in texts_in_value(args):
            args = with_text(args, path, self._clean(text))
        return replace(example, args=args, description=self._clean(example.description))

    def _clean(self, text: str) -> str:
        return self.masker.clean(text)[0]

    def _without(self, text: str, candidates: Sequence[str]) -> str:
        """Return searchable words without those that come only from the names of denied tools."""
        gone: Counter[str] = Counter()
        for candidate in candidates:
            gone += Counter(words(candidate)) - Counter(words(self.masker.without(candidate)))
        if not gone:
            return text
        kept: list[str] = []
        for word in text.split():
            if gone[word] > 0:
                gone[word] -= 1
            else:
                kept.append(word)
        return " ".join(kept)


def _names_denied(masker: NameMasker, told: str) -> bool:
    """Return whether any of a tool's candidates, by column as stored in the index, is denied."""
    return any(masker.without(each) != each for each in chain.from_iterable(_candidates(told).values()))


def _candidates(told: str) -> dict[str, list[str]]:
    with damaged_rows():
        return json.loads(told)


class CatalogViews:
    """The wording of each kind of caller, for the catalog requested last."""

    def __init__(
        self, index: ToolTexts, maskers: NameMaskers, own: Callable[[], AskingByTool] = lambda: NO_ASKING
    ) -> None:
        """``own`` returns the requests that were written for tools: the same value while they are the same."""
        self._index, self._maskers, self._own = index, maskers, own
        self._postings = StoredPostings(index.stems, FIELDS) if index.stems else None
        self._by_permissions = Recent[tuple[tuple[int, ...], frozenset[int] | None], CatalogView](_VIEWS_MAX)

    @property
    def capabilities(self) -> Capabilities:
        """The dictionary from which tools get their ways of asking."""
        return self._index.reading.capabilities

    def view(self, catalog: Catalog, permitted: Permitted) -> CatalogView:
        """Return the wording for callers who may use ``permitted``, which is part of ``catalog``."""
        key = permitted.permissions.key, permitted.open_rows
        with suppress(KeyError):
            view = self._by_permissions[key]
            if view.permitted is permitted and view.own is self._own():
                return view
        view = self._by_permissions[key] = self.build(catalog, permitted)
        return view

    def build(self, catalog: Catalog, permitted: Permitted) -> CatalogView:
        """Return the same without caching it: for a catalog that is not published yet."""
        masker = self._maskers.masker(catalog, permitted.permissions)
        return CatalogView(self._index, permitted, masker, self._postings, self._own(), catalog.instructions)
