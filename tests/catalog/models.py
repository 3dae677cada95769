"""A tiny model for semantic search, made with the real libraries: words that mean the same have the same vector."""

from collections.abc import Mapping
from pathlib import Path

import pytest

MEANINGS: Mapping[str, tuple[str, ...]] = {
    "ticket": ("ticket", "tickets", "issue", "issues", "bug", "gripe"),
    "meal": ("meal", "lunch", "recipe", "cook"),
    "merge": ("merge", "merges", "join", "unite"),
    "code": ("code", "source", "program"),
}


def make_model(folder: Path, meanings: Mapping[str, tuple[str, ...]] = MEANINGS) -> Path:
    """Save a model in ``folder``; a test that asks for one is skipped where the extra is not installed."""
    numpy = pytest.importorskip("numpy", reason="the extra toolcrib[semantic] is not installed")
    model2vec = pytest.importorskip("model2vec", reason="the extra toolcrib[semantic] is not installed")
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    words = {word: axis for axis, group in enumerate(meanings.values()) for word in group}
    tokenizer = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(["[UNK]", *words])}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    vectors = numpy.zeros((len(words) + 1, len(meanings)), "float32")
    for number, axis in enumerate(words.values(), 1):
        vectors[number, axis] = 1
    model2vec.StaticModel(vectors, tokenizer, normalize=True).save_pretrained(folder)
    return folder
