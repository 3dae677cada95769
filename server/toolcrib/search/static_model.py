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

from toolcrib.base.errors import ModelUnavailable

FILES = ("config.json", "model.safetensors", "tokenizer.json")
"""The files of a model: all are downloaded, and all are required."""

INSTALL = "pip install 'toolcrib[semantic]'"
_BATCH = 64
"""Number of texts encoded while another thread waits: a few milliseconds."""

_log = logging.getLogger(__name__)


class StaticModel:
    """A loaded model. Safe to use from several threads, one batch of texts at a time."""

    def __init__(self, model: Any, model_id: str) -> None:
        self._model, self._lock = model, Lock()
        self.model_id = model_id

    def encode(self, texts: list[str]) -> Any:
        """Return an array with one row per text.

        Raises:
            ModelUnavailable: the library fails.

        """
        rows: list[Any] = []
        for start in range(0, len(texts), _BATCH):
            # The tokenizer rejects lone surrogates.
            batch = [text.encode("utf-8", "ignore").decode() for text in texts[start : start + _BATCH]]
            with self._lock, _skill_errors("The model cannot encode texts"):  # encoding initializes the tokenizer again
                rows.extend(self._model.encode(batch, use_multiprocessing=False))
        return rows


def load_model(folder: Path) -> StaticModel:
    """Load the model in ``folder``. Never downloads: a folder with a missing file is refused first.

    Raises:
        ModelUnavailable: the library is not installed, or there is no model or a broken one.

    """
    require_library()
    folder = folder.absolute()
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        public = "The model is not there; `toolcrib index semantic --download` downloads it."
        raise ModelUnavailable(public, detail=f"{folder} lacks {', '.join(missing)}")
    with _skill_errors("The model is broken; `toolcrib index semantic --download` downloads it again"):
        model = import_module("model2vec").StaticModel.from_pretrained(folder)
        return StaticModel(model, _model_id(folder))


def download_model(name: str, folder: Path) -> None:
    """Download the model ``name``, as ``owner/name`` on the Hugging Face hub, into ``folder``.

    Raises:
        ModelUnavailable: the library is not installed, or the model cannot be downloaded.

    """
    require_library()
    with _skill_errors(f"The model {name} cannot be fetched"):
        hub = import_module("huggingface_hub")
        hub.snapshot_download(name, allow_patterns=list(FILES), local_dir=folder)


def require_library() -> None:
    """Raise if the library is not installed.

    Raises:
        ModelUnavailable: it is not installed.

    """
    if find_spec("model2vec") is None:
        raise ModelUnavailable(f"The extra for semantic search is not installed: {INSTALL}")


def _model_id(folder: Path) -> str:
    """Return an identifier of these weights, without reading them."""
    facts = [(name, status.st_size, status.st_mtime_ns) for name in FILES for status in [(folder / name).stat()]]
    return sha256(repr(facts).encode()).hexdigest()[:32]


@contextmanager
def _skill_errors(public: str) -> Generator[None]:
    """Convert any error of the libraries into ours; tokenizers raises plain ``Exception``."""
    try:
        yield
    except Exception as error:  # barrier: libraries that only an extra uses; without them, ranking is by words
        kind = type(error).__name__
        _log.debug("%s", public, exc_info=True)
        raise ModelUnavailable(f"{public} ({kind}).", detail=f"{kind}: {error}") from error
