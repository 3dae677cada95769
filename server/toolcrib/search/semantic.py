"""Semantic search beside word search: documents whose vectors are near a query's, and the fusion of both rankings.

Knows vectors and what is near; never knows words, policies or where a model comes from.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any, Protocol

from toolcrib.base.cache import Recent
from toolcrib.base.errors import ModelUnavailable, StoreError
from toolcrib.base.text import query_terms
from toolcrib.search.documents import KEPT_MAX, Documents
from toolcrib.search.encoding import Model, SharedModel, finite
from toolcrib.search.relevance import NO_EVIDENCE, Ranked

NEAREST = 100
"""Number of nearest documents that are fused with at most as many text matches."""

_LONG_QUERY = 12
_LEAST_SHARE = 0.4

_log = logging.getLogger(__name__)


class VectorStore(Protocol):
    """Texts of rows, and their vectors as blobs by model and text. Every method may raise StoreError."""

    def texts(self, rows: Iterable[int]) -> dict[int, str]:
        """Return the text of each of these rows; deleted rows are omitted."""
        ...

    def vectors(self, model_id: str, texts: Collection[str]) -> dict[str, bytes]:
        """Return the stored vectors of a model, by text."""
        ...

    def add(self, model_id: str, vectors: Mapping[str, bytes]) -> None:
        """Store vectors by text."""
        ...


class Semantic:
    """Vectors of one kind of documents, and semantic ranking by them. Safe to use from several threads.

    If there is no model, or the model or the store fails, ranking is by words alone. ``alpha`` is the weight of
    semantic relevance, from 0 to 1.
    """

    def __init__(self, model: SharedModel, store: VectorStore, alpha: float) -> None:
        self._shared, self._store, self._alpha = model, store, alpha
        self._matrices = Recent[Documents, Any](KEPT_MAX)

    def is_quick(self, documents: Documents) -> bool:
        """Return whether :meth:`fused` has nothing to load, and nothing to encode but the query."""
        return self._shared.reason is not None or documents in self._matrices

    def fused(self, ranked: Ranked, query: str, documents: Documents, numbers: frozenset[int] | None) -> Ranked:
        """Return text matches fused with those semantically near, among these ``numbers`` (None: all).

        Documents that the caller may not find do not count. The evidence for the first of ``ranked`` is kept only if
        the same document is still first.
        """
        cosines = self._cosines(query, documents)
        # All zeros if the model knows no word of the query.
        if cosines is None or not cosines.any():
            return ranked
        lexical = dict(ranked.matches)
        near = {*_nearest(cosines, numbers), *lexical}
        relevances = fuse(
            lexical, {number: float(cosines[number]) for number in near}, self._alpha, len(query_terms(query))
        )
        matches = tuple(sorted(relevances.items(), key=lambda pair: (-pair[1], pair[0])))
        is_agreed = bool(matches and ranked.matches and matches[0][0] == ranked.matches[0][0])
        return Ranked(matches, ranked.evidence if is_agreed else replace(NO_EVIDENCE, words=ranked.evidence.words))

    def _cosines(self, query: str, documents: Documents) -> Any:
        """Return the cosine similarity of each document to a query; None if it cannot be computed."""
        model = self._shared.get()
        if model is None or not documents.in_order:
            return None
        try:
            matrix = self._matrices.get(documents, lambda: self._matrix(model, documents))
            numpy = import_module("numpy")
            # Not by BLAS: its threads wait for each other while other programs keep the cores busy.
            return numpy.einsum("ij,j->i", matrix, model.unit_rows([query])[0])
        except ModelUnavailable as error:
            self._shared.give_up(error)
        except StoreError:  # the file may become readable again
            _log.info("vectors cannot be read just now")
        return None

    def _matrix(self, model: Model, documents: Documents) -> Any:
        """Return the unit vectors of the documents, one per row; encode and store missing ones."""
        numpy = import_module("numpy")
        rows = documents.in_order
        by_row = documents.meanings(self._store.texts(rows))
        texts = [by_row.get(row, "") for row in rows]
        size = model.dimensions * 4
        kept = self._store.vectors(model.encoder.model_id, set(texts))
        known = {text: vector for text, vector in kept.items() if len(vector) == size}
        missing = list(dict.fromkeys(text for text in texts if text not in known))
        if missing:
            made = {text: row.tobytes() for text, row in zip(missing, model.unit_rows(missing), strict=True)}
            known |= made
            self._keep(model, made)
        joined = b"".join(known[text] for text in texts)
        return finite(numpy.frombuffer(joined, "<f4").reshape(len(texts), model.dimensions))

    def _keep(self, model: Model, vectors: Mapping[str, bytes]) -> None:
        try:
            self._store.add(model.encoder.model_id, vectors)
        except StoreError as error:  # they are used now; the next start encodes the texts again
            _log.info("vectors are not kept: %s", error)


def fuse(lexical: Mapping[int, float], cosines: Mapping[int, float], alpha: float, words: int) -> dict[int, float]:
    """Return fused lexical and semantic relevances, on the scale of the lexical ones.

    Each kind is normalized by its best document; semantic relevance has the weight ``alpha``, and less in a query of
    more than 12 ``words``, whose vector is near to everything. Documents without any relevance are omitted.
    """
    weight = alpha * (max(_LEAST_SHARE, _LONG_QUERY / words) if words > _LONG_QUERY else 1)
    best, nearest = max(lexical.values(), default=0.0), max(cosines.values(), default=0.0)
    if nearest <= 0:
        return dict(lexical)
    scale = best or 1.0
    fused = {
        number: (1 - weight) * lexical.get(number, 0.0) + weight * scale * max(cosines.get(number, 0.0), 0.0) / nearest
        for number in lexical.keys() | cosines.keys()
    }
    return {number: value for number, value in fused.items() if value > 0}


def _nearest(cosines: Any, numbers: frozenset[int] | None) -> list[int]:
    numpy = import_module("numpy")
    inside = numpy.arange(len(cosines)) if numbers is None else numpy.array(sorted(numbers), dtype=int)
    if len(inside) > NEAREST:
        inside = inside[numpy.argpartition(-cosines[inside], NEAREST)[:NEAREST]]
    return inside.tolist()
