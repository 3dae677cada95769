"""How many tokens a text takes: cl100k where its vocabulary is at hand, else a quarter of the characters.

Knows tokenizers; never knows what is counted, and never fetches anything.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

_VOCABULARY = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
"""The name under which tiktoken keeps the vocabulary of cl100k in ``$TIKTOKEN_CACHE_DIR``."""


def counter() -> tuple[Callable[[str], int], str]:
    """Return what counts tokens, and the unit that its counts have."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR")
    if folder and Path(folder, _VOCABULARY).is_file():
        try:
            import tiktoken  # pyright: ignore[reportMissingImports] - may be absent
        except ImportError:
            pass
        else:
            encoding = tiktoken.get_encoding("cl100k_base")
            return lambda text: len(encoding.encode(text, disallowed_special=())), "tokens"
    return lambda text: -(-len(text) // 4), "tokens (estimate: characters / 4)"


def compact(value: Any) -> str:
    """Return compact JSON, as a host hands it to a model."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
