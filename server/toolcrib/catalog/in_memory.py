"""The texts of tools whose records are in memory, where no file is wanted (ADR 73)."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from toolcrib.base.model import JsonObject, Tool, ToolRecord
from toolcrib.base.patterns import SUBJECT_MAX
from toolcrib.base.text import SearchTexts
from toolcrib.catalog.index import Card, Reading, Versions, description_of, text_to_embed, words_of
from toolcrib.catalog.outputs import output_of
from toolcrib.search.postings import Version

_Value = TypeVar("_Value")


def tool_of(row: int, record: ToolRecord) -> Tool:
    """Return a record as the catalog holds it, with its row."""
    return Tool(
        row,
        record.server,
        record.name,
        record.public_name,
        record.loading_mode,
        record.side_effects,
        record.read_only,
        record.fingerprint,
    )


class ToolsInMemory:
    """What :class:`~toolcrib.catalog.index.ToolIndex` reads of its rows, read from records: one immutable set of tools.

    It is what a view needs of an index (:class:`~toolcrib.catalog.index.ToolTexts`), and what vectors are made of.
    """

    stems = None

    def __init__(self, records: Mapping[int, ToolRecord], reading: Reading, search_texts: SearchTexts) -> None:
        self._records, self._search_texts, self.reading = records, search_texts, reading

    def definitions(self, ids: Iterable[int], versions: Versions = None) -> dict[int, JsonObject]:
        """Return whole definitions by row."""
        return self._of_rows(ids, versions, lambda record: dict(record.definition))

    def cards(self, ids: Iterable[int], versions: Versions = None) -> dict[int, Card]:
        """Return what search results show, by row."""
        return self._of_rows(ids, versions, _card_of)

    def shown(self, ids: Iterable[int], versions: Versions = None) -> dict[int, tuple[JsonObject, Card]]:
        """Return both, by row."""
        return self._of_rows(ids, versions, lambda record: (dict(record.definition), _card_of(record)))

    def texts(self, ids: Iterable[int], versions: Versions = None) -> dict[int, tuple[str, ...]]:
        """Return texts that a pattern is tried on besides names, by row: the description's start, and tags (R237)."""
        return self._of_rows(ids, versions, lambda record: (_described(record).strip()[:SUBJECT_MAX], *record.tags))

    def words(self, ids: Iterable[int], versions: Versions = None) -> dict[int, tuple[Version, tuple[str, ...]]]:
        """Return the searchable words by row, one text per full-text column, preceded by their version."""
        return self._of_rows(ids, versions, lambda record: (record.fingerprint, words_of(record, self._search_texts)))

    def versions(self, ids: Iterable[int]) -> dict[int, tuple[Version, str]]:
        """Return the version of each row, and the possible tool names in its texts, as JSON by text column."""
        return self._of_rows(ids, None, lambda record: (record.fingerprint, json.dumps(record.mentions)))

    def texts_to_embed(self, ids: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Return the version and the text to embed of each row."""
        return self._of_rows(ids, None, lambda record: (record.fingerprint, text_to_embed(record, self._search_texts)))

    def _of_rows(
        self, ids: Iterable[int], versions: Versions, make: Callable[[ToolRecord], _Value]
    ) -> dict[int, _Value]:
        found = ((row, self._records[row]) for row in ids if row in self._records)
        return {
            row: make(record) for row, record in found if versions is None or versions.get(row) == record.fingerprint
        }


def _card_of(record: ToolRecord) -> Card:
    returns = output_of(record.definition.get("outputSchema")).shown
    return Card(_described(record), record.signature, returns, record.tags, record.examples)


def _described(record: ToolRecord) -> str:
    return description_of(record.summary, record.body)
