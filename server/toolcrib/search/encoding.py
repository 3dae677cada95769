"""The encoder that turns texts into vectors: loaded once, its results checked, no longer used once it fails.

Knows vectors and why there are none; never knows which texts are encoded or what their vectors are compared with.
"""

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from threading import Lock
from typing import Any, Literal, Protocol

from toolcrib.base.errors import ModelUnavailable
from toolcrib.base.model import JsonObject

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
    is disabled for good; this is logged once, and :attr:`reason` says why.
    """

    def __init__(self, load: Callable[[], Encoder]) -> None:
        self._load, self._loading = load, Lock()
        self._model: Model | None = None
        self.reason: str | None = None

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
            self.reason = str(error)
            _log.warning("search goes by words alone: %s", error)

    def state(self) -> SemanticState:
        """Return whether semantic search is active; the first call loads the model, so it may block."""
        self.get()
        return SemanticState("ready") if self.reason is None else SemanticState("unavailable", self.reason)


def state_of(model: SharedModel | None) -> SemanticState:
    """Return whether semantic search is active; None means that the config disables it. May block."""
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
