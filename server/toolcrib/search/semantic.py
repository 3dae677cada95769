"""Semantic search beside word search: documents whose vectors are near a query's, and the fusion of both rankings."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from threading import Lock
from typing import Any, Literal, Protocol

from toolcrib.base.cache import Recent
from toolcrib.base.errors import ModelUnavailable, StoreError
from toolcrib.base.model import JsonObject
from toolcrib.base.text import query_terms
from toolcrib.search.confidence import NO_EVIDENCE
from toolcrib.search.documents import CACHED_MAX, Documents
from toolcrib.search.ranking import Ranked
from toolcrib.search.static_model import ModelNotInstalled

_log = logging.getLogger(__name__)


class Encoder(Protocol):
    """Turns texts into vectors. ``model_id`` distinguishes it from every encoder with other vectors."""

    @property
    def model_id(self) -> str:
        """Part of the key under which vectors are stored."""
        ...

    def encode(self, texts: list[str]) -> Any:
        """Return an array with one row per text; raise ModelUnavailable on failure."""
        ...


@dataclass(frozen=True, slots=True)
class SemanticState:
    """Whether semantic search is active, and if not, why."""

    state: Literal["off", "ready", "unavailable"]
    reason: str | None = None

    def json(self) -> JsonObject:
        """Return it as a JSON object."""
        return asdict(self)


OFF = SemanticState("off", "tool_search.semantic.enabled is false")


@dataclass(frozen=True, slots=True)
class Model:
    """A working encoder and the dimension of its vectors."""

    encoder: Encoder
    dimensions: int

    def unit_rows(self, texts: list[str]) -> Any:
        """Encode texts and return unit vectors, one row per text.

        Raises:
            ModelUnavailable: the encoder fails, or its vectors have another dimension than before.

        """
        rows = _unit_rows(self.encoder, texts)
        if rows.shape[1] != self.dimensions:
            raise ModelUnavailable("The model gives vectors of different lengths.")
        return rows


class SharedModel:
    """The one model of a process. Safe to use from several threads.

    ``load`` returns the encoder; it is called once, on first use. A model that cannot be loaded, or that fails later,
    is disabled for good; this is logged once, and :attr:`reason` says why. ``find`` raises ModelUnavailable if there is
    none to load, without loading it. ``optional``: that none is installed is no fault, and is not logged.
    """

    def __init__(
        self, load: Callable[[], Encoder], find: Callable[[], object] = lambda: None, *, optional: bool = False
    ) -> None:
        self._load, self._find, self._optional, self._loading = load, find, optional, Lock()
        self._model: Model | None = None
        self.reason: str | None = None
        self._absent = self._has_warned = False

    def get(self) -> Model | None:
        """Return the model, loading it if necessary; None if there is none. May block."""
        # Loading takes long: concurrent callers wait for the thread that loads.
        with self._loading:
            if self._model is None and self.reason is None:
                try:
                    encoder = self._load()
                    # Any word shows the dimension of the vectors.
                    self._model = Model(encoder, _unit_rows(encoder, ["tool"]).shape[1])
                except ModelUnavailable as error:
                    self.give_up(error)
        return self._model if self.reason is None else None

    def give_up(self, error: ModelUnavailable) -> None:
        """Disable the model for good."""
        if self.reason is None:
            self.reason, self._absent = str(error), self._is_optional(error)
            if not self._absent:
                _log.warning("search goes by words alone: %s", error)

    def warn_unstored(self, error: StoreError) -> None:
        """Log once that vectors cannot be stored."""
        if not self._has_warned:
            self._has_warned = True
            _log.warning("vectors are not kept: %s Each start makes them anew.", error)

    def state(self) -> SemanticState:
        """Return whether semantic search is active. Loads nothing; may read the disk."""
        if self.reason is not None:
            return SemanticState("off" if self._absent else "unavailable", self.reason)
        if self._model is None:
            try:
                self._find()
            except ModelUnavailable as error:
                return SemanticState("off" if self._is_optional(error) else "unavailable", str(error))
        return SemanticState("ready")

    def _is_optional(self, error: ModelUnavailable) -> bool:
        return self._optional and isinstance(error, ModelNotInstalled)


def state_of(model: SharedModel | None) -> SemanticState:
    """Return whether semantic search is active; None means that the config disables it. May read the disk."""
    return OFF if model is None else model.state()


def finite(rows: Any) -> Any:
    """Return an array unchanged if all its values are finite.

    Raises:
        ModelUnavailable: a value is not finite.

    """
    # numpy is part of an extra, so it is imported only where there is a model.
    if not import_module("numpy").isfinite(rows).all():
        raise ModelUnavailable("The model gives vectors that are not numbers.")
    return rows


def _unit_rows(encoder: Encoder, texts: list[str]) -> Any:
    """Encode texts and return unit vectors as little-endian float32; a text without any known word gives all zeros.

    Raises:
        ModelUnavailable: the encoder fails, or its result is not one row of numbers per text.

    """
    numpy = import_module("numpy")
    encoded = encoder.encode(texts)
    try:
        # Little-endian on every machine, because the bytes are stored in a file.
        rows = numpy.asarray(encoded, "<f4")
    except (TypeError, ValueError) as error:
        raise ModelUnavailable("The model gives something else than vectors.", detail=str(error)) from error
    if rows.ndim != 2 or rows.shape[0] != len(texts) or not rows.shape[1]:
        raise ModelUnavailable("The model gives something else than one vector a text.", detail=f"shape {rows.shape}")
    lengths = numpy.linalg.norm(finite(rows), axis=1, keepdims=True)
    return finite(rows / numpy.where(lengths > 0, lengths, 1))


NEAREST = 100
"""Number of nearest documents that are fused with at most as many text matches."""

_STORED_AT_ONCE = 1000
"""Number of texts encoded and stored in one step: a tenth of a second, after which other writers have a turn."""

_LONG_QUERY = 12
_LEAST_SHARE = 0.4


class VectorStore(Protocol):
    """Texts of rows, and their vectors as blobs by model and text. Every method may raise StoreError."""

    def texts(self, rows: Iterable[int]) -> dict[int, str]:
        """Return the text of each of these rows; deleted rows are omitted."""
        ...

    def vectors(self, model_id: str, texts: Collection[str]) -> dict[str, bytes]:
        """Return the stored vectors of a model, by text."""
        ...

    def missing(self, model_id: str, owner: str) -> list[str]:
        """Return the texts of an owner's rows without a stored vector of a model."""
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
        self._matrices = Recent[Documents, Any](CACHED_MAX)

    def fill(self, owner: str) -> None:
        """Encode and store the new texts of an owner's rows, so that no search has to wait for them. Blocks.

        A text that cannot be stored is encoded by each process that searches it.
        """
        model = self._shared.get()
        if model is None:
            return
        try:
            missing = self._store.missing(model.encoder.model_id, owner)
            for start in range(0, len(missing), _STORED_AT_ONCE):
                texts = missing[start : start + _STORED_AT_ONCE]
                self._store.add(model.encoder.model_id, _blobs(texts, model.unit_rows(texts)))
        except ModelUnavailable as error:
            self._shared.give_up(error)
        except StoreError as error:
            self._shared.warn_unstored(error)

    def prepare(self, documents: Documents) -> None:
        """Build the matrix of documents that are searched next, unless nothing was searched by meaning yet. Blocks."""
        if len(self._matrices) and documents not in self._matrices:
            self._matrix_of(documents)

    @property
    def may_rank(self) -> bool:
        """Whether there is a model, or one that is loaded on first use."""
        return self._shared.reason is None

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
        if not documents.in_order or (known := self._matrix_of(documents)) is None:
            return None
        model, matrix = known
        try:
            # Not by BLAS: its threads wait for each other while other programs keep the cores busy.
            return import_module("numpy").einsum("ij,j->i", matrix, model.unit_rows([query])[0])
        except ModelUnavailable as error:
            self._shared.give_up(error)
        return None

    def _matrix_of(self, documents: Documents) -> tuple[Model, Any] | None:
        """Return the model and the documents' matrix, known or new; None if there is none."""
        model = self._shared.get()
        if model is None:
            return None
        try:
            return model, self._matrices.get(documents, lambda: self._matrix(model, documents))
        except ModelUnavailable as error:
            self._shared.give_up(error)
        except StoreError:  # the file may become readable again
            _log.info("vectors cannot be read just now")
        return None

    def _matrix(self, model: Model, documents: Documents) -> Any:
        """Return the unit vectors of the documents, one per row; encode and store missing ones."""
        numpy = import_module("numpy")
        rows = documents.in_order
        by_row = documents.texts_to_embed(self._store.texts(rows))
        texts = [by_row.get(row, "") for row in rows]
        size = model.dimensions * 4
        stored = self._store.vectors(model.encoder.model_id, set(texts))
        known = {text: vector for text, vector in stored.items() if len(vector) == size}
        missing = list(dict.fromkeys(text for text in texts if text not in known))
        if missing:
            made = _blobs(missing, model.unit_rows(missing))
            known |= made
            try:
                self._store.add(model.encoder.model_id, made)
            except StoreError as error:  # they are used now; the next start encodes the texts again
                self._shared.warn_unstored(error)
        joined = b"".join(known[text] for text in texts)
        return finite(numpy.frombuffer(joined, "<f4").reshape(len(texts), model.dimensions))


def _blobs(texts: Sequence[str], rows: Any) -> dict[str, bytes]:
    return {text: row.tobytes() for text, row in zip(texts, rows, strict=True)}


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
