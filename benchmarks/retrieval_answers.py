"""The answers of one checkout's toolcrib to the requests of a set of tools: the set on stdin, the answers on stdout.

Run with that checkout's `server` and `benchmarks` as PYTHONPATH and `python -P`, so that each toolcrib is driven by the
benchmark modules that were written for it. Knows nothing of what is right.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from retrieval_data import Dataset, Document
from retrieval_metrics import ask
from retrieval_world import opened


def print_answers() -> None:
    """Print for each request its ids, best first, its confidence and its milliseconds."""
    given: Mapping[str, Any] = json.load(sys.stdin)
    documents: Sequence[Mapping[str, Any]] = given["documents"]
    dataset = Dataset(given["name"], tuple(Document(**each) for each in documents), ())
    with opened(dataset) as ours:
        found = [ask(ours.search, text) for text in given["requests"]]
    json.dump([{"ids": each.ids, "confidence": each.confidence, "ms": each.ms} for each in found], sys.stdout)


if __name__ == "__main__":
    print_answers()
