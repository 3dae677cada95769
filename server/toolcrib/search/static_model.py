"""Static word embeddings: finds the files of a model, and turns texts into vectors (ADR 59).

A text's vector is the sum of those of its tokens, so a model is a table and a tokenizer. Both are read as they are
installed or downloaded, by numpy and ``tokenizers``: no code of a model's package runs, and nothing is fetched.
"""

import json
import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from toolcrib.base.errors import ModelUnavailable
from toolcrib.base.model import JsonObject

FILES = ("config.json", "model.safetensors", "tokenizer.json")
"""The files of a downloaded model: all are downloaded, and all are required."""

INSTALL = "pip install 'toolcrib[semantic]'"

PACKAGE = "wordllama"
"""The distribution that brings a model."""

_PACKAGED = ("wordllama/weights/l2_supercat_256.safetensors", "wordllama/tokenizers/l2_supercat_tokenizer_config.json")
"""The files of the model in the wheel of that package: weights and tokenizer."""

_METHOD = 1
"""Increased when the same files would give other vectors."""
_BATCH = 64
"""Number of texts encoded at once: a few milliseconds."""
_TOKENS_MAX = 512
"""Number of tokens of a text that count, unless a model's config says otherwise, as in model2vec."""
_HEADER_MAX = 1_000_000
"""Maximum size of a weights file's header in bytes; that of a model has some hundred."""

_TABLES = ("embeddings", "embedding.weight")
"""The names of the table of vectors: in models made by model2vec and by wordllama."""
_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I8": "<i1", "I32": "<i4", "I64": "<i8"}

_log = logging.getLogger(__name__)


class ModelNotInstalled(ModelUnavailable):
    """The extra for semantic search, or the package that brings a model, is not installed."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model on disk. ``label`` names it for people, ``model_id`` distinguishes its vectors from any other's."""

    label: str
    weights: Path
    tokenizer: Path
    model_id: str
    config: Path | None = None


def find_model(own: Path | None, downloaded: Path) -> ModelFiles:
    """Return the model to use: the one in the folder ``own``, else the ``downloaded`` one, else the installed one.

    Nothing is loaded or fetched; a folder with a missing file is refused.

    Raises:
        ModelNotInstalled: there is none because the extra is not installed.
        ModelUnavailable: files are missing.

    """
    require_libraries()
    with _library_errors("The model cannot be read"):
        if own is not None:
            return files_in(own)
        return files_in(downloaded) if _lacks(downloaded) == [] else _packaged()


def files_in(folder: Path) -> ModelFiles:
    """Return the model in ``folder``.

    Raises:
        ModelUnavailable: a file is missing.

    """
    folder = folder.absolute()
    if missing := _lacks(folder):
        public = "The model is not there; `toolcrib index semantic --download` downloads it."
        raise ModelUnavailable(public, detail=f"{folder} lacks {', '.join(missing)}")
    # Without reading them: a file that is replaced gets another size or time.
    facts = [(name, status.st_size, status.st_mtime_ns) for name in FILES for status in [(folder / name).stat()]]
    config, weights, tokenizer = (folder / name for name in FILES)
    return ModelFiles(str(folder), weights, tokenizer, _identity(facts), config)


def _lacks(folder: Path) -> list[str]:
    return [name for name in FILES if not (folder / name).is_file()]


def _packaged() -> ModelFiles:
    """Return the model in the installed package, as its wheel recorded it; the package is not imported."""
    metadata = import_module("importlib.metadata")
    try:
        distribution = metadata.distribution(PACKAGE)
        recorded = {str(file): file for file in distribution.files or ()}
    except metadata.PackageNotFoundError:
        public = f"No model is installed: {INSTALL}, or `toolcrib index semantic --download`."
        raise ModelNotInstalled(public) from None
    label = f"{PACKAGE} {distribution.version}"
    found: dict[str, Path] = {}
    for name in _PACKAGED:
        path = Path(recorded[name].locate()) if name in recorded else None
        # A file of another size than the wheel's was damaged, and mapping a shortened one would end the process.
        if path is None or not path.is_file() or recorded[name].size not in (None, path.stat().st_size):
            public = f"The model in the package {PACKAGE} is damaged: reinstall it."
            raise ModelUnavailable(public, detail=f"{label}: {name} is not as recorded")
        found[name] = path
    digests = [file.hash.value if file.hash else str(file.size) for file in map(recorded.__getitem__, _PACKAGED)]
    weights, tokenizer = map(found.__getitem__, _PACKAGED)
    return ModelFiles(label, weights, tokenizer, _identity(digests))


def _identity(facts: object) -> str:
    return sha256(repr((_METHOD, facts)).encode()).hexdigest()[:32]


class StaticModel:
    """A loaded model. Safe to use from several threads."""

    def __init__(self, model_id: str, tokenizer: Any, tensors: Mapping[str, Any]) -> None:
        """Take a tokenizer, and the arrays of a weights file by name.

        ``embeddings`` has one row per token; with a ``mapping`` from tokens to rows it may have fewer. ``weights``
        multiply the rows by token.
        """
        self.model_id, self._tokenizer = model_id, tokenizer
        self._table = next(tensors[name] for name in _TABLES if name in tensors)
        self._mapping, self._weights = tensors.get("mapping"), tensors.get("weights")
        self._unknown = _unknown_token(tokenizer)
        rows = len(self._table) if self._mapping is None else len(self._mapping)
        if self._table.ndim != 2 or tokenizer.get_vocab_size() > rows:
            raise ValueError(f"{tokenizer.get_vocab_size()} tokens, and a table of the shape {self._table.shape}")

    def encode(self, texts: list[str]) -> Any:
        """Return a float32 array with one row per text; a text without known tokens has zeros.

        Raises:
            ModelUnavailable: the files do not fit each other.

        """
        numpy = import_module("numpy")
        vectors = numpy.zeros((len(texts), self._table.shape[1]), "<f4")
        with _library_errors("The model cannot encode texts"):
            for start in range(0, len(texts), _BATCH):
                # The tokenizer rejects lone surrogates.
                batch = [text.encode("utf-8", "ignore").decode() for text in texts[start : start + _BATCH]]
                self._add(numpy, vectors[start : start + _BATCH], batch)
        return vectors

    def _add(self, numpy: Any, vectors: Any, texts: list[str]) -> None:
        if len(texts) == 1:  # a batch is handed to other threads, for which a query would have to wait
            encoded = [self._tokenizer.encode(texts[0], add_special_tokens=False)]
        else:
            encoded = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        tokens = [[token for token in each.ids if token != self._unknown] for each in encoded]
        flat = numpy.array([token for each in tokens for token in each], "<i4")
        # Each row is converted once: that of half precision takes longer than all the rest. Only the pages of these
        # rows are loaded.
        distinct, places = numpy.unique(flat, return_inverse=True)
        rows = self._table[distinct if self._mapping is None else self._mapping[distinct]].astype("<f4")
        if self._weights is not None:
            rows *= self._weights[distinct, None].astype("<f4")
        end = 0
        for number, each in enumerate(tokens):
            # In the order of its tokens, so a text has the same vector in any batch.
            rows[places[end : end + len(each)]].sum(axis=0, out=vectors[number])
            end += len(each)


def load_model(files: ModelFiles) -> StaticModel:
    """Load a model. Takes a tenth of a second, most of it to import numpy and to parse the tokenizer.

    Raises:
        ModelUnavailable: the extra is not installed, or the files are damaged or those of something else.

    """
    require_libraries()
    public = "The model is broken; reinstall it, or `toolcrib index semantic --download` downloads it again"
    with _library_errors(public):
        tokenizer = import_module("tokenizers").Tokenizer.from_file(str(files.tokenizer))
        tokenizer.no_padding()
        config: JsonObject = json.loads(files.config.read_bytes()) if files.config else {}
        tokenizer.enable_truncation(config.get("max_length") or _TOKENS_MAX)
        return StaticModel(files.model_id, tokenizer, _mapped(files.weights))


def download_model(name: str, folder: Path) -> None:
    """Download the model ``name``, as ``owner/name`` on the Hugging Face hub, into ``folder``.

    Raises:
        ModelUnavailable: the extra is not installed, or the model cannot be downloaded.

    """
    require_libraries()
    with _library_errors(f"The model {name} cannot be fetched"):
        # A dependency of tokenizers.
        hub = import_module("huggingface_hub")
        hub.snapshot_download(name, allow_patterns=list(FILES), local_dir=folder)


def require_libraries() -> None:
    """Raise if the extra is not installed.

    Raises:
        ModelNotInstalled: it is not installed.

    """
    if find_spec("tokenizers") is None or find_spec("numpy") is None:
        raise ModelNotInstalled(f"The extra for semantic search is not installed: {INSTALL}.")


def _mapped(path: Path) -> Mapping[str, Any]:
    """Return the arrays of a weights file by name, mapped into memory (the safetensors format).

    The file begins with the size of a header in eight bytes; that is JSON with the type, shape and place of each array.
    """
    numpy = import_module("numpy")
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(_HEADER_MAX, size - 8):
            raise ValueError(f"a header of {length} bytes")
        header = json.loads(file.read(length))
    tensors: dict[str, Any] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        dtype, shape = numpy.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"])
        if not 0 <= begin <= end <= size - 8 - length or dtype.itemsize * int(numpy.prod(shape)) != end - begin:
            raise ValueError(f"{name} is not where the header says")
        mapped = numpy.memmap(path, dtype, "r", 8 + length + begin, shape)
        tensors[name] = numpy.asarray(mapped)  # a plain array is read faster
    return tensors


def _unknown_token(tokenizer: Any) -> int | None:
    """Return the token for what the vocabulary lacks, which has a vector and means nothing."""
    if hasattr(tokenizer.model, "unk_token"):
        token = tokenizer.model.unk_token
        return None if token is None else tokenizer.token_to_id(token)
    return json.loads(tokenizer.to_str())["model"].get("unk_id")  # a model without that attribute is a Unigram


@contextmanager
def _library_errors(public: str) -> Generator[None]:
    """Convert any error of the libraries into ours; tokenizers raises plain ``Exception``."""
    try:
        yield
    except ModelUnavailable:
        raise
    except Exception as error:  # barrier: libraries that only an extra uses; without them, ranking is by words
        kind = type(error).__name__
        _log.debug("%s", public, exc_info=True)
        raise ModelUnavailable(f"{public} ({kind}).", detail=f"{kind}: {error}") from error
