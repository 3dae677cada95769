"""The texts of offers as certain callers may read them: with public URIs, without names of denied tools.

Knows which texts of a definition are words for a reader; never knows sessions, pages or how anything is found.
"""

from collections.abc import Sequence

from toolcrib.base.model import JsonObject, OfferKind
from toolcrib.offers.index import OfferIndex
from toolcrib.offers.ingest import ADDRESSES, texts_of
from toolcrib.offers.records import Offer
from toolcrib.tools.definitions.texts import with_text
from toolcrib.tools.mentions import ToolMentions


class OfferTexts:
    """Reads definitions. Safe to use from several threads; reading blocks."""

    def __init__(self, index: OfferIndex) -> None:
        self._index = index

    def definitions(self, offers: Sequence[Offer], mentions: ToolMentions) -> list[JsonObject]:
        """Return the definitions of some offers as shown to a client; offers removed meanwhile are omitted.

        Raises:
            StoreError: the index cannot be read.

        """
        return [{**each, ADDRESSES[offer.kind]: offer.public} for offer, each in self.worded(mentions, offers)]

    def worded(self, mentions: ToolMentions, offers: Sequence[Offer]) -> list[tuple[Offer, JsonObject]]:
        """Return the same with the servers' own URIs and names, with the offer of each."""
        found = self._index.definitions(offer.row for offer in offers)
        known = ((offer, found[offer.row]) for offer in offers if offer.row in found)
        return [(offer, _worded(offer.kind, definition, mentions)) for offer, definition in known]


def _worded(kind: OfferKind, definition: JsonObject, mentions: ToolMentions) -> JsonObject:
    """Return a definition without the names of tools that are denied to its reader."""
    if mentions.hides_nothing:
        return definition
    for path, text in texts_of(kind, definition):
        if (clean := mentions.clean(text)[0]) != text:
            definition = with_text(definition, path, clean)
    return definition
