"""The encoder that turns texts into vectors: loaded once, its results checked, no longer used once it fails.

Knows vectors and why there are none; never knows which texts are encoded or what their vectors are compared with.
"""

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from threading import Lock
from typing import Any, Literal, Protocol

from toolcrib.errors import ModelUnavailable
from toolcrib.model import JsonObject

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
class Model:
    """An encoder that works, and how many numbers a vector of it has."""

    encoder: Encoder
    dimensions: int

    def unit_rows(self, texts: list[str]) -> Any:
        """Encode texts and return unit vectors, a row each.

        Raises:
            ModelUnavailable: the encoder fails, or gives something else than before.

        """
        rows = _unit_rows(self.encoder, texts)
        if rows.shape[1] != self.dimensions:
            raise ModelUnavailable("The model gives vectors of different lengths.")
        return rows


class SharedModel:
    """The one model of a process. Safe to use from several threads.

    ``load`` gives the encoder, once, when it is first needed. A model that cannot be loaded, or that fails later, is
    given up for good; this is logged once, and :attr:`reason` says why.
    """

    def __init__(self, load: Callable[[], Encoder]) -> None:
        self._load, self._loading = load, Lock()
        self._model: Model | None = None
        self.reason: str | None = None

    def get(self) -> Model | None:
        """Return the model, loaded now if it was not; None where there is none. May block."""
        # Loading takes long: threads that come meanwhile wait for the one that loads.
        with self._loading:
            if self._model is None and self.reason is None:
                try:
                    encoder = self._load()
                    # Any one word tells how long its vectors are.
                    self._model = Model(encoder, _unit_rows(encoder, ["tool"]).shape[1])
                except ModelUnavailable as error:
                    self.give_up(error)
        return self._model if self.reason is None else None

    def give_up(self, error: ModelUnavailable) -> None:
        """Use the model no more."""
        if self.reason is None:
            self.reason = str(error)
            _log.warning("search goes by words alone: %s", error)

    def state(self) -> SemanticState:
        """Return whether meaning counts; the first time this loads the model, so it may block."""
        self.get()
        return SemanticState("ready") if self.reason is None else SemanticState("unavailable", self.reason)


def state_of(model: SharedModel | None) -> SemanticState:
    """Return whether meaning counts; None is a search that goes by words as configured. May block."""
    return OFF if model is None else model.state()


def finite(rows: Any) -> Any:
    """Return rows of numbers as they are.

    Raises:
        ModelUnavailable: one of them is none.

    """
    # numpy comes with an extra, so it is imported only where there is a model.
    if not import_module("numpy").isfinite(rows).all():
        raise ModelUnavailable("The model gives vectors that are not numbers.")
    return rows


def _unit_rows(encoder: Encoder, texts: list[str]) -> Any:
    """Encode texts and return unit vectors as little-endian float32; a text without any known word is all zeros.

    Raises:
        ModelUnavailable: the encoder fails, or what it gives is not a row of numbers for each text.

    """
    numpy = import_module("numpy")
    encoded = encoder.encode(texts)
    try:
        # Little-endian on every machine, because the bytes are kept in a file.
        rows = numpy.asarray(encoded, "<f4")
    except (TypeError, ValueError) as error:
        raise ModelUnavailable("The model gives something else than vectors.", detail=str(error)) from error
    if rows.ndim != 2 or rows.shape[0] != len(texts) or not rows.shape[1]:
        raise ModelUnavailable("The model gives something else than one vector a text.", detail=f"shape {rows.shape}")
    lengths = numpy.linalg.norm(finite(rows), axis=1, keepdims=True)
    return finite(rows / numpy.where(lengths > 0, lengths, 1))
