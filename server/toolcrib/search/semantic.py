"""Semantic search beside word search: documents whose vectors are near a query's, and the fusion of both rankings."""

import logging
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from importlib import import_module
from itertools import accumulate, chain, islice, pairwise
from math import sqrt
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple, Protocol

from toolcrib.base.cache import Recent
from toolcrib.base.errors import ModelUnavailable, StoreError
from toolcrib.base.model import JsonObject
from toolcrib.search.capabilities import NO_CAPABILITIES, Capabilities
from toolcrib.search.confidence import NEAR, Evidence, is_sure
from toolcrib.search.documents import CACHED_MAX, Documents
from toolcrib.search.ranking import Ranked
from toolcrib.search.static_model import ModelFiles, ModelNotInstalled, find_model, load_model

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


def static_model(own: Path | None, downloaded: Path, *, optional: bool = True) -> SharedModel:
    """Return the static model to use (:func:`find_model`), which is looked for and loaded on first use."""

    def find() -> ModelFiles:
        return find_model(own, downloaded)

    return SharedModel(lambda: load_model(find()), find, optional=optional)


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
"""Number of nearest documents that are fused with the text matches."""

_AT_ONCE = 1000
"""Number of texts encoded and stored in one step: a tenth of a second, after which other writers have a turn."""

_SPARE = 1000
"""Number of vectors that may be kept though no known documents have them, beyond as many again as are in use."""

_MOST = 0.55
"""Maximum weight of meaning: what words have found counts nearly as much, however unsure they are (ADR 63)."""

_OF_WAYS = 0.1
"""How much less near a document is by a way of asking for what it does than by its own text (ADR 63)."""

_LIKELY_ASKED = 48
"""Number of capabilities of which each way is compared with a query: those whose ways it is nearest to on average."""

_WAYS_AT_ONCE = 250
_TINY = 1e-9

_ASKED_MAX = 10
"""Maximum number of capabilities, of those that documents show, that a query may ask for by meaning."""

_AHEAD = 1.05
"""The relevance of a first match that words are sure of, relative to any other."""


class VectorStore(Protocol):
    """Texts of rows, and their vectors as blobs by model and key: rows with the same key have the same text.

    Every method may raise StoreError.
    """

    def texts(self, rows: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Return the key and the text of each of these rows; deleted rows are omitted."""
        ...

    def vectors(self, model_id: str, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the stored vectors of a model, by key."""
        ...

    def missing(self, model_id: str, owner: str) -> dict[str, str]:
        """Return the texts of an owner's rows without a stored vector of a model, by key."""
        ...

    def add(self, model_id: str, vectors: Mapping[str, bytes]) -> None:
        """Store vectors by key."""
        ...


@dataclass(frozen=True, slots=True)
class _Text:
    """A text to embed. ``stored``: a row has it, and its key; others are read like that by some callers only."""

    key: str
    text: str
    stored: bool


class _Pool:
    """Unit vectors by key, in one growing array: all sets of documents share it, so a new catalog costs what is new.

    Reading needs no lock; one thread at a time may add.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.places: dict[str, int] = {}
        self._array = import_module("numpy").empty((0, dimensions), "<f4")

    @property
    def rows(self) -> Any:
        """All vectors, one per row."""
        return self._array[: len(self.places)]

    def add(self, keys: Sequence[str], rows: Any) -> None:
        """Add vectors with new keys.

        Raises:
            ModelUnavailable: a value is not finite.

        """
        numpy, first, rows = import_module("numpy"), len(self.places), finite(rows)
        if first + len(keys) > len(self._array):
            # Whoever reads the smaller array goes on with it.
            larger = numpy.empty((max(2 * first, first + len(keys)), self.dimensions), "<f4")
            larger[:first] = self._array[:first]
            self._array = larger
        self._array[first : first + len(keys)] = rows
        self.places |= {key: first + number for number, key in enumerate(keys)}

    def only(self, places: Container[int]) -> "_Pool":
        """Return a pool of these places alone."""
        pool = _Pool(self.dimensions)
        kept = {key: place for key, place in self.places.items() if place in places}
        pool.add(list(kept), self.rows[list(kept.values())])
        return pool


@dataclass(frozen=True, slots=True)
class _Placed:
    """The vectors of a set of documents: the place of each in a pool."""

    pool: _Pool
    places: Any

    def cosines(self, query: Any) -> Any:
        """Return the cosine similarity of each document to a query, a unit vector.

        That of one document does not depend on the others: each row is multiplied by itself.
        """
        numpy, rows = import_module("numpy"), self.pool.rows
        # Not by BLAS: its threads wait for each other while other programs keep the cores busy.
        if 2 * len(self.places) > len(rows):  # copying rows takes longer than multiplying them
            return numpy.einsum("ij,j->i", rows, query)[self.places]
        return numpy.einsum("ij,j->i", rows[self.places], query)


class _Ways:
    """Vectors of the ways in which people ask for capabilities: of no document, so the same for every caller."""

    def __init__(self, model: Model, capabilities: Capabilities) -> None:
        numpy, marked = import_module("numpy"), list(capabilities.marked())
        self._marks = [mark for mark, _ in marked]
        ways = [(each.name, *each.ways) for _, each in marked]
        begins = [0, *accumulate(map(len, ways))]
        texts = list(chain.from_iterable(ways))
        self._rows = numpy.empty((len(texts), model.dimensions), "<f4")
        for start in range(0, len(texts), _WAYS_AT_ONCE):
            self._rows[start : start + _WAYS_AT_ONCE] = model.unit_rows(texts[start : start + _WAYS_AT_ONCE])
        # Each capability has as many places; in those that it has no more ways for is its first way again.
        most = max(map(len, ways), default=0)
        self._places = numpy.array(
            [[*range(begin, end), *[begin] * (most - end + begin)] for begin, end in pairwise(begins)], "<i4"
        )
        self._middles = numpy.add.reduceat(self._rows, begins[:-1]) if ways else self._rows
        self._middles /= numpy.maximum(numpy.linalg.norm(self._middles, axis=1, keepdims=True), _TINY)

    def asked(self, query: Any) -> list[tuple[str, float]]:
        """Return the marks of the capabilities that a query, a unit vector, asks for, each with its nearest way."""
        if not self._marks:
            return []
        numpy = import_module("numpy")
        middles = numpy.einsum("ij,j->i", self._middles, query)
        likely = numpy.argsort(-middles, kind="stable")[:_LIKELY_ASKED]
        nearest = numpy.einsum("ijk,k->ij", self._rows[self._places[likely]], query).max(axis=1)
        in_order = numpy.argsort(-nearest, kind="stable")
        return [(self._marks[likely[each]], float(nearest[each])) for each in in_order if nearest[each] >= NEAR]


class _Compared(NamedTuple):
    """The cosine similarity of a query to each document, and to the nearest way of each capability that it asks for."""

    cosines: Any
    asked: Sequence[tuple[str, float]]


class Showing(Protocol):
    """Which documents show which capabilities, by mark; their postings."""

    def __contains__(self, mark: str, /) -> bool:
        """Return whether any does."""
        ...

    def having(self, mark: str, numbers: Collection[int], /) -> Collection[int]:
        """Return those of ``numbers``, which are found by words, that do."""
        ...


class Semantic:
    """Vectors of one kind of documents, and semantic ranking by them. Safe to use from several threads.

    If there is no model, or the model or the store fails, ranking is by words alone. ``alpha``, from 0 to 1, is
    multiplied by how unsure words are to the weight of semantic relevance. Documents that show one of ``capabilities``
    are near to a query that asks for it.
    """

    def __init__(
        self, model: SharedModel, store: VectorStore, alpha: float, capabilities: Capabilities = NO_CAPABILITIES
    ) -> None:
        self._shared, self._store, self._alpha, self._capabilities = model, store, alpha, capabilities
        self._placed = Recent[Documents, _Placed](CACHED_MAX)
        self._pool: _Pool | None = None
        self._ways: _Ways | None = None

    def fill(self, owner: str) -> None:
        """Encode and store the new texts of an owner's rows, so that no search has to wait for them. Blocks.

        A text that cannot be stored is encoded by each process that searches it.
        """
        model = self._shared.get()
        if model is None:
            return
        try:
            self._ways_of(model)
            missing = self._store.missing(model.encoder.model_id, owner)
            for keys in _batches(list(missing)):
                rows = model.unit_rows([missing[key] for key in keys])
                self._store.add(model.encoder.model_id, _blobs(keys, rows))
        except ModelUnavailable as error:
            self._shared.give_up(error)
        except StoreError as error:
            self._shared.warn_unstored(error)

    def prepare(self, documents: Documents) -> None:
        """Read the vectors of documents that are searched next, unless nothing was searched by meaning yet. Blocks."""
        if len(self._placed):
            self._vectors_of(documents)

    def is_quick(self, documents: Documents) -> bool:
        """Return whether :meth:`fused` has nothing to load, and nothing to encode but the query."""
        return self._shared.reason is not None or (documents in self._placed and self._ways is not None)

    def fused(
        self, ranked: Ranked, query: str, documents: Documents, numbers: frozenset[int] | None, showing: Showing
    ) -> Ranked:
        """Return text matches fused with those semantically near, among these ``numbers`` (None: all).

        Documents that the caller may not find do not count. The surer words are, the less meaning counts; a first match
        that they are sure of stays first. ``showing`` tells of those that words have found what they do.
        """
        is_settled = is_sure(ranked.evidence)
        compared = self._compared(query, documents, ways_too=bool(ranked.matches) and not is_settled)
        # All zeros if the model knows no word of the query.
        if compared is None or not (compared.cosines.any() or compared.asked):
            return ranked
        cosines, lexical = compared.cosines, dict(ranked.matches)
        nearness = {number: float(cosines[number]) for number in {*_nearest(cosines, numbers), *lexical}}
        shown = (pair for pair in compared.asked if pair[0] in showing)
        for mark, cosine in islice(shown, _ASKED_MAX):
            for number in showing.having(mark, lexical):
                nearness[number] = max(nearness[number], cosine - _OF_WAYS)
        relevances = fuse(lexical, nearness, self._weight(ranked.evidence))
        if is_settled:
            first = ranked.matches[0][0]
            relevances[first] = max(relevances[first], _AHEAD * max(relevances.values()))
        matches = tuple(sorted(relevances.items(), key=lambda pair: (-pair[1], pair[0])))
        return Ranked(matches, _evidence(ranked, matches[0][0], nearness)) if matches else ranked

    def _weight(self, by_words: Evidence) -> float:
        """Return the weight of meaning, given the evidence for the first match by words."""
        unsure = self._alpha * (1 - by_words.strength)
        # Vectors do not know the ways in which people ask: even a small share of a request is worth more than they are.
        return min(_MOST, unsure) * (1 - sqrt(min(by_words.served, 1.0)))

    def _compared(self, query: str, documents: Documents, *, ways_too: bool) -> _Compared | None:
        """Compare a query with documents, and with ways of asking; None if that cannot be computed."""
        if not documents.in_order or (known := self._vectors_of(documents)) is None:
            return None
        model, vectors = known
        try:
            row = model.unit_rows([query])[0]
            ways = self._ways_of(model)
            return _Compared(vectors.cosines(row), ways.asked(row) if ways_too else ())
        except ModelUnavailable as error:
            self._shared.give_up(error)
        return None

    def _ways_of(self, model: Model) -> _Ways:
        # Two threads may both make them; the result is the same.
        ways = self._ways = self._ways or _Ways(model, self._capabilities)
        return ways

    def _vectors_of(self, documents: Documents) -> tuple[Model, _Placed] | None:
        """Return the model and the documents' vectors, known or new; None if there is no model, or no store."""
        model = self._shared.get()
        if model is None:
            return None
        try:
            return model, self._placed.get(documents, lambda: self._place(model, documents))
        except ModelUnavailable as error:
            self._shared.give_up(error)
        except StoreError:  # the file may become readable again
            _log.info("vectors cannot be read just now")
        return None

    def _place(self, model: Model, documents: Documents) -> _Placed:
        """Return the documents' places in the pool; vectors that it lacks are read, or made and stored."""
        pool = self._pool = self._pool or _Pool(model.dimensions)
        rows, versions = documents.in_order, documents.embedded_versions()
        # What has no version these callers may read in other words than the others.
        unversioned = [row for row, version in zip(rows, versions, strict=True) if version is None]
        texts = self._read(documents, unversioned)
        keys = [version or texts[row].key for row, version in zip(rows, versions, strict=True)]
        wanted = {key: row for key, row in zip(keys, rows, strict=True) if key not in pool.places}
        for part in _batches(list(wanted)):
            self._take_stored(model, pool, part)
        written: dict[str, str] = {}
        for part in _batches([key for key in wanted if key not in pool.places]):
            made = self._make(model, pool, self._read(documents, [wanted[key] for key in part]))
            written |= zip(part, made, strict=True)
        # A row that was written since the catalog was made has another key, that of its text now.
        keys = [written.get(key, key) for key in keys]
        pool = self._pool = self._without_unused(pool, [pool.places[key] for key in keys])
        return _Placed(pool, import_module("numpy").array([pool.places[key] for key in keys]))

    def _read(self, documents: Documents, rows: Sequence[int]) -> dict[int, _Text]:
        """Return the texts of rows as the documents' callers read them; those of deleted rows are empty."""
        if not rows:
            return {}
        stored = self._store.texts(rows)
        read = documents.texts_to_embed({row: text for row, (_, text) in stored.items()})
        texts: dict[int, _Text] = {}
        for row in rows:
            key, text = stored.get(row, ("", None))
            given = read.get(row, "")
            texts[row] = _Text(key, given, stored=True) if given == text else _Text(_digest(given), given, stored=False)
        return texts

    def _take_stored(self, model: Model, pool: _Pool, keys: Sequence[str]) -> None:
        numpy, size = import_module("numpy"), model.dimensions * 4
        stored = self._store.vectors(model.encoder.model_id, keys)
        whole = {key: vector for key, vector in stored.items() if len(vector) == size}
        pool.add(list(whole), numpy.frombuffer(b"".join(whole.values()), "<f4").reshape(len(whole), model.dimensions))

    def _make(self, model: Model, pool: _Pool, texts: Mapping[int, _Text]) -> list[str]:
        """Make the vectors of texts that the pool lacks, and store those of rows. Return the keys of all."""
        new = {each.key: each for each in texts.values() if each.key not in pool.places}
        made = model.unit_rows([each.text for each in new.values()])
        pool.add(list(new), made)
        own = [number for number, each in enumerate(new.values()) if each.stored]
        if own:
            keys = list(new)
            try:
                self._store.add(model.encoder.model_id, _blobs([keys[number] for number in own], made[own]))
            except StoreError as error:  # they are used now; the next start encodes the texts again
                self._shared.warn_unstored(error)
        return [each.key for each in texts.values()]

    def _without_unused(self, pool: _Pool, places: Sequence[int]) -> _Pool:
        """Return a smaller pool if most vectors are of no known documents any more; else the same."""
        if len(pool.places) <= _SPARE + 2 * len(places):
            return pool
        in_use = set(places).union(*(each.places.tolist() for each in self._placed.values() if each.pool is pool))
        return pool if len(pool.places) <= _SPARE + 2 * len(in_use) else pool.only(in_use)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _blobs(keys: Sequence[str], rows: Any) -> dict[str, bytes]:
    return {key: row.tobytes() for key, row in zip(keys, rows, strict=True)}


def _batches(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[start : start + _AT_ONCE] for start in range(0, len(keys), _AT_ONCE))


def fuse(lexical: Mapping[int, float], cosines: Mapping[int, float], weight: float) -> dict[int, float]:
    """Return fused lexical and semantic relevances, on the scale of the lexical ones.

    Each kind is normalized by its best document; semantic relevance has the ``weight``, from 0 to 1. Documents without
    any relevance are omitted.
    """
    best, nearest = max(lexical.values(), default=0.0), max(cosines.values(), default=0.0)
    if nearest <= 0:
        return dict(lexical)
    scale = best or 1.0
    fused = {
        number: (1 - weight) * lexical.get(number, 0.0) + weight * scale * max(cosines.get(number, 0.0), 0.0) / nearest
        for number in lexical.keys() | cosines.keys()
    }
    return {number: value for number, value in fused.items() if value > 0}


def _evidence(ranked: Ranked, first: int, nearness: Mapping[int, float]) -> Evidence:
    """Return the evidence for the first match of the fused ranking, given the ranking by words."""
    near = nearness[first]
    if not ranked.matches:
        return replace(ranked.evidence, near=near)
    # A single document is ahead of nothing.
    other = max((cosine for number, cosine in nearness.items() if number != first), default=near)
    return replace(ranked.evidence, lead=near - other, is_agreed=first == ranked.matches[0][0])


def _nearest(cosines: Any, numbers: frozenset[int] | None) -> list[int]:
    numpy = import_module("numpy")
    inside = numpy.arange(len(cosines)) if numbers is None else numpy.array(sorted(numbers), dtype=int)
    if len(inside) > NEAREST:
        among = cosines[inside]
        # By its value, so that of equally near ones none is left out by its place in the order.
        inside = inside[among >= numpy.partition(among, len(among) - NEAREST)[-NEAREST]]
    return inside.tolist()
