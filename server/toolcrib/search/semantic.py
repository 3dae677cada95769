"""What meaning adds to words: documents whose texts are near a query's vector, and how both rankings become one.

Knows vectors and when there are none; never knows words, policies or where a model comes from.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib import import_module
from threading import Lock
from typing import Any, Literal, Protocol

from toolcrib.base.recent import Recent
from toolcrib.base.text import query_terms
from toolcrib.errors import ModelUnavailable, StoreError
from toolcrib.model import JsonObject
from toolcrib.search.relevance import NO_EVIDENCE, Ranked
from toolcrib.search.scoring import RANKERS_MAX

NEAREST = 100
"""How many documents by meaning are weighed together with at most as many found by words."""

_LONG_QUERY = 12
_LEAST_SHARE = 0.4

_log = logging.getLogger(__name__)


class Encoder(Protocol):
    """What turns texts into vectors. ``model_id`` tells it from every encoder with other vectors."""

    @property
    def model_id(self) -> str:
        """Part of the key that vectors are kept under."""
        ...

    def encode(self, texts: list[str]) -> Any:
        """Return as many rows of numbers as there are texts; raise ModelUnavailable where that fails."""
        ...


class Documents(Protocol):
    """What one caller may find, as one unchanging value: the key that vectors in memory are kept under."""

    @property
    def in_order(self) -> Sequence[int]:
        """The row of each document; its place here is its number."""
        ...

    def __hash__(self) -> int:
        """Tell it from every other such set."""
        ...


class VectorStore(Protocol):
    """Texts of rows, and their vectors as blobs by model and text. Every method may raise StoreError."""

    def texts(self, rows: Iterable[int]) -> dict[int, str]:
        """Return the text of each of these rows; rows that are gone are left out."""
        ...

    def vectors(self, model_id: str, hashes: Iterable[str]) -> dict[str, bytes]:
        """Return the vectors of a model that are known, by :func:`text_hash`."""
        ...

    def add(self, model_id: str, vectors: Mapping[str, bytes]) -> None:
        """Keep vectors, by :func:`text_hash`."""
        ...


def text_hash(text: str) -> str:
    """Return what the vector of a text is kept under."""
    return sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class SemanticState:
    """Whether meaning counts, and why not."""

    state: Literal["off", "ready", "unavailable"]
    reason: str | None = None

    def json(self) -> JsonObject:
        """Return it as a JSON object."""
        return asdict(self)


OFF = SemanticState("off", "tool_search.semantic.enabled is false")


@dataclass(frozen=True, slots=True)
class _Model:
    """An encoder that works, and how many numbers a vector of it has."""

    encoder: Encoder
    dimensions: int


class Semantic:
    """Vectors of documents, and what they say about a query. Safe to use from several threads.

    ``load`` gives the encoder, once, when it is first needed. Where that or anything later fails words
    alone decide; this is logged once, and :meth:`state` says why.
    """

    def __init__(self, load: Callable[[], Encoder], cache: VectorStore, alpha: float) -> None:
        self._load, self._cache, self._alpha = load, cache, alpha
        self._loading = Lock()
        self._model: _Model | None = None
        self._reason: str | None = None
        self._matrices = Recent[Documents, Any](RANKERS_MAX)

    def state(self) -> SemanticState:
        """Return whether meaning counts; the first time this loads the model, so it may block."""
        self._loaded()
        return SemanticState("ready") if self._reason is None else SemanticState("unavailable", self._reason)

    def is_quick(self, documents: Documents) -> bool:
        """Return whether :meth:`fused` has nothing to load or encode but the query."""
        return self._reason is not None or documents in self._matrices

    def fused(self, ranked: Ranked, query: str, documents: Documents, numbers: frozenset[int] | None) -> Ranked:
        """Return what was found by words, with what is near in meaning among these ``numbers`` (None: all).

        Documents that the caller may not find are not even looked at (law 2).
        What speaks for the first of ``ranked`` speaks for the first of these only if it is the same one.
        """
        cosines = self._cosines(query, documents)
        if cosines is None or not cosines.any():
            return ranked
        lexical = dict(ranked.matches)
        near = {*_nearest(cosines, numbers), *lexical}
        relevances = fuse(
            lexical, {number: float(cosines[number]) for number in near}, self._alpha, len(query_terms(query))
        )
        matches = tuple(sorted(relevances.items(), key=lambda pair: (-pair[1], pair[0])))
        is_agreed = bool(matches and ranked.matches and matches[0][0] == ranked.matches[0][0])
        return Ranked(matches, ranked.evidence if is_agreed else NO_EVIDENCE)

    def _cosines(self, query: str, documents: Documents) -> Any:
        """Return how near each document is to a query; None where that cannot be told."""
        model = self._loaded()
        if model is None or not documents.in_order:
            return None
        try:
            matrix = self._matrices.get(documents, lambda: self._matrix(model, documents))
            numpy = import_module("numpy")
            # Not by BLAS: its threads wait for each other where other programs keep the cores busy.
            return numpy.einsum("ij,j->i", matrix, self._unit(model, [query])[0])
        except ModelUnavailable as error:
            self._give_up(error)
        except StoreError:  # the file may be of use again later
            _log.info("vectors cannot be read just now")
        return None

    def _loaded(self) -> _Model | None:
        with self._loading:
            if self._model is None and self._reason is None:
                try:
                    encoder = self._load()
                    self._model = _Model(encoder, _unit_rows(encoder, ["tool"]).shape[1])
                except ModelUnavailable as error:
                    self._give_up(error)
        return self._model if self._reason is None else None

    def _give_up(self, error: ModelUnavailable) -> None:
        if self._reason is None:
            self._reason = str(error)
            _log.warning("search goes by words alone: %s", error)

    def _matrix(self, model: _Model, documents: Documents) -> Any:
        """Return the unit vectors of the documents, a row each; encode and keep those that are not known."""
        numpy = import_module("numpy")
        rows = documents.in_order
        by_row = self._cache.texts(rows)
        texts = [by_row.get(row, "") for row in rows]
        hashes = [text_hash(text) for text in texts]
        size = model.dimensions * 4
        known = self._cache.vectors(model.encoder.model_id, set(hashes))
        known = {each: vector for each, vector in known.items() if len(vector) == size}
        missing = {each: text for each, text in zip(hashes, texts, strict=True) if each not in known}
        if missing:
            made = self._unit(model, list(missing.values()))
            new = {each: row.tobytes() for each, row in zip(missing, made, strict=True)}
            known |= new
            self._keep(model, new)
        joined = b"".join(known[each] for each in hashes)
        return _finite(numpy.frombuffer(joined, "<f4").reshape(len(hashes), model.dimensions))

    def _keep(self, model: _Model, vectors: Mapping[str, bytes]) -> None:
        try:
            self._cache.add(model.encoder.model_id, vectors)
        except StoreError as error:  # they are of use now; the next start encodes the texts again
            _log.info("vectors are not kept: %s", error)

    def _unit(self, model: _Model, texts: list[str]) -> Any:
        rows = _unit_rows(model.encoder, texts)
        if rows.shape[1] != model.dimensions:
            raise ModelUnavailable("The model gives vectors of different lengths.")
        return rows


def state_of(semantic: Semantic | None) -> SemanticState:
    """Return whether meaning counts; None is a search that goes by words as configured. May block."""
    return OFF if semantic is None else semantic.state()


def fuse(lexical: Mapping[int, float], cosines: Mapping[int, float], alpha: float, words: int) -> dict[int, float]:
    """Return relevances by words and meaning together, on the scale of those by words.

    Each kind counts by its share of the best of its kind; meaning counts ``alpha``, and less in a query of more
    than 12 ``words``, whose vector is near to everything. What is nowhere relevant is left out.
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


def _unit_rows(encoder: Encoder, texts: list[str]) -> Any:
    """Encode texts and return unit vectors as little-endian float32; a text without any known word is all zeros.

    Raises:
        ModelUnavailable: the encoder fails, or what it gives is not a row of numbers for each text.

    """
    numpy = import_module("numpy")
    encoded = encoder.encode(texts)
    try:
        rows = numpy.asarray(encoded, "<f4")
    except (TypeError, ValueError) as error:
        raise ModelUnavailable("The model gives something else than vectors.", detail=str(error)) from error
    if rows.ndim != 2 or rows.shape[0] != len(texts) or not rows.shape[1]:
        raise ModelUnavailable("The model gives something else than one vector a text.", detail=f"shape {rows.shape}")
    lengths = numpy.linalg.norm(_finite(rows), axis=1, keepdims=True)
    return _finite(rows / numpy.where(lengths > 0, lengths, 1))


def _finite(rows: Any) -> Any:
    if not import_module("numpy").isfinite(rows).all():
        raise ModelUnavailable("The model gives vectors that are not numbers.")
    return rows
