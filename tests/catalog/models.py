"""A tiny model for semantic search, as model2vec writes one: words that mean the same have the same vector."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from toolcrib.search.static_model import StaticModel, files_in
from toolcrib.search.static_model import load_model as load_files

MEANINGS: Mapping[str, tuple[str, ...]] = {
    "ticket": ("ticket", "tickets", "issue", "issues", "bug", "gripe"),
    "meal": ("meal", "lunch", "recipe", "cook"),
    "merge": ("merge", "merges", "join", "unite"),
    "code": ("code", "source", "program"),
}


def make_model(folder: Path, meanings: Mapping[str, tuple[str, ...]] = MEANINGS) -> Path:
    """Save a model in ``folder``; a test that asks for one is skipped where the extra is not installed."""
    numpy = pytest.importorskip("numpy", reason="the extra toolcrib[semantic] is not installed")
    words = {word: axis for axis, group in enumerate(meanings.values()) for word in group}
    vectors = numpy.zeros((len(words) + 1, len(meanings)), "<f4")
    for number, axis in enumerate(words.values(), 1):
        vectors[number, axis] = 1
    folder.mkdir(parents=True, exist_ok=True)
    save_tokenizer(folder / "tokenizer.json", words)
    save_tensors(folder / "model.safetensors", embeddings=vectors)
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": True}))
    return folder


def make_package(site: Path, *, recorded: bool = True) -> Path:
    """Install a package with a tiny model in ``site``, as pip does with the one that the extra brings."""
    model = make_model(site / "made")
    weights, tokenizer = (
        site / "wordllama" / name
        for name in ("weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json")
    )
    for path, made in ((weights, "model.safetensors"), (tokenizer, "tokenizer.json")):
        path.parent.mkdir(parents=True)
        path.write_bytes((model / made).read_bytes())
    info = site / "wordllama-0.4.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: wordllama\nVersion: 0.4.0\n")
    (site / "wordllama/__init__.py").write_text("raise AssertionError('the package is imported')")
    if recorded:
        lines = [f"{path.relative_to(site).as_posix()},sha256=x,{path.stat().st_size}" for path in (weights, tokenizer)]
        (info / "RECORD").write_text("\n".join(lines))
    return site


def load_model(folder: Path) -> StaticModel:
    """Load the model in ``folder``."""
    return load_files(files_in(folder))


def save_tokenizer(path: Path, words: Mapping[str, object]) -> None:
    """Save a tokenizer that knows whole words; those that it does not know are the token 0."""
    tokenizers = pytest.importorskip("tokenizers", reason="the extra toolcrib[semantic] is not installed")
    known = {word: number for number, word in enumerate(["[UNK]", *words])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(path))


def save_tensors(path: Path, **tensors: Any) -> None:
    """Save arrays as a file of safetensors."""
    types = {"<f2": "F16", "<f4": "F32", "<f8": "F64", "|i1": "I8", "<i4": "I32", "<i8": "I64"}
    header: dict[str, Any] = {"__metadata__": {"format": "np"}}
    end = 0
    for name, array in tensors.items():
        places = [end, end := end + array.nbytes]
        header[name] = {"dtype": types[array.dtype.str], "shape": list(array.shape), "data_offsets": places}
    encoded = json.dumps(header).encode()
    path.write_bytes(
        len(encoded).to_bytes(8, "little") + encoded + b"".join(each.tobytes() for each in tensors.values())
    )
