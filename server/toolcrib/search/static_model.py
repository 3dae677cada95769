"""A model of static word vectors in a local folder, by the optional library model2vec, and how one is fetched.

Knows the library and the files of a model; never knows what is encoded or why.
"""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from toolcrib.errors import ModelUnavailable

FILES = ("config.json", "model.safetensors", "tokenizer.json")
"""What a model consists of: everything that is fetched, and all that has to be there."""

INSTALL = "pip install 'toolcrib[semantic]'"
_BATCH = 64
"""So many texts are encoded while another thread waits: a few milliseconds."""

_log = logging.getLogger(__name__)


class StaticModel:
    """A model that is loaded. Safe to use from several threads, one batch of texts at a time."""

    def __init__(self, model: Any, model_id: str) -> None:
        self._model, self._lock = model, Lock()
        self.model_id = model_id

    def encode(self, texts: list[str]) -> Any:
        """Return a row of numbers for each text.

        Raises:
            ModelUnavailable: the library fails.

        """
        rows: list[Any] = []
        for start in range(0, len(texts), _BATCH):
            # The tokenizer refuses lone surrogates.
            batch = [text.encode("utf-8", "ignore").decode() for text in texts[start : start + _BATCH]]
            with self._lock, _skill_errors("The model cannot encode texts"):  # encoding sets up the tokenizer anew
                rows.extend(self._model.encode(batch, use_multiprocessing=False))
        return rows


def load_model(folder: Path) -> StaticModel:
    """Load the model in ``folder``. Nothing is ever fetched: a folder that lacks a file is refused before.

    Raises:
        ModelUnavailable: the library is not installed, or there is no model or a broken one.

    """
    require_library()
    folder = folder.absolute()
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        public = "The model is not there; `toolcrib index semantic --download` fetches it."
        raise ModelUnavailable(public, detail=f"{folder} lacks {', '.join(missing)}")
    with _skill_errors("The model is broken; `toolcrib index semantic --download` fetches it anew"):
        model = import_module("model2vec").StaticModel.from_pretrained(folder)
        return StaticModel(model, _model_id(folder))


def download_model(name: str, folder: Path) -> None:
    """Fetch the model ``name``, as ``owner/name`` on the Hugging Face hub, into ``folder``.

    Raises:
        ModelUnavailable: the library is not installed, or the model cannot be fetched.

    """
    require_library()
    with _skill_errors(f"The model {name} cannot be fetched"):
        hub = import_module("huggingface_hub")
        hub.snapshot_download(name, allow_patterns=list(FILES), local_dir=folder)


def require_library() -> None:
    """Refuse to go on without the library.

    Raises:
        ModelUnavailable: it is not installed.

    """
    if find_spec("model2vec") is None:
        raise ModelUnavailable(f"The extra for semantic search is not installed: {INSTALL}")


def _model_id(folder: Path) -> str:
    """Return what tells these weights from others, without reading them."""
    facts = [(name, status.st_size, status.st_mtime_ns) for name in FILES for status in [(folder / name).stat()]]
    return sha256(repr(facts).encode()).hexdigest()[:32]


@contextmanager
def _skill_errors(public: str) -> Generator[None]:
    """Turn whatever goes wrong inside the libraries into our error; tokenizers raises plain ``Exception``."""
    try:
        yield
    except Exception as error:  # barrier: libraries that only an extra uses; the words decide without them
        kind = type(error).__name__
        _log.debug("%s", public, exc_info=True)
        raise ModelUnavailable(f"{public} ({kind}).", detail=f"{kind}: {error}") from error
