"""The requests in plain words are well formed, and their right answers are tools that the recorded servers have."""

import json
from pathlib import Path

import pytest

import catalog
from retrieval_data import HELD_OUT, PLAIN, over_recorded

MOST_WORDS, FEWEST_WORDS, MOST_RIGHT, MOST_PER_SERVER = 16, 4, 6, 12
HALVES = (PLAIN, HELD_OUT)
REQUESTS = [each for half in HALVES for each in json.loads(half.read_text(encoding="utf-8"))]


def test_each_plain_request_is_short_asked_once_and_has_a_right_answer():
    texts = [each["text"].casefold().strip() for each in REQUESTS]
    assert len(texts) == len(set(texts)) == 200
    assert all(FEWEST_WORDS <= len(text.split()) <= MOST_WORDS for text in texts)
    assert all(each.keys() <= {"text", "right", "needs"} for each in REQUESTS)
    assert all(1 <= len(each["right"]) == len(set(each["right"])) <= MOST_RIGHT for each in REQUESTS)


def test_no_server_has_more_than_its_share_of_the_plain_requests():
    meant = [each["right"][0].rpartition(".")[0] for each in REQUESTS]
    assert max(meant.count(server) for server in meant) <= MOST_PER_SERVER


@pytest.mark.parametrize("half", HALVES, ids=lambda half: half.stem)
@pytest.mark.skipif(not catalog.CATALOG.is_dir(), reason="the recorded servers do not lie beside the repository")
def test_the_right_answers_of_the_plain_requests_are_tools_of_the_recorded_servers(half: Path):
    dataset = over_recorded(half, catalog.CATALOG, catalog.server_key)
    known = {document.id for document in dataset.documents}
    assert len(known) == len(dataset.documents)
    assert {one for query in dataset.queries for one in query.gold} <= known


def test_requests_over_recorded_servers_tell_tools_of_the_same_name_apart(tmp_path: Path):
    for stem in ("mcp-server-disk", "mcp-server-cloud"):
        listed = {"tools": [{"name": "read_file", "description": f"Reads from {stem}.", "inputSchema": {}}]}
        (tmp_path / f"{stem}.json").write_text(json.dumps(listed), encoding="utf-8")
    requests = tmp_path / "asked" / "requests.json"
    requests.parent.mkdir()
    requests.write_text(
        '[{"text": "what does my letter say", "right": ["mcp-server-disk.read_file"]}]', encoding="utf-8"
    )

    dataset = over_recorded(requests, tmp_path, catalog.server_key)

    assert {(each.id, each.server) for each in dataset.documents} == {
        ("mcp-server-disk.read_file", "disk"),
        ("mcp-server-cloud.read_file", "cloud"),
    }
    assert [query.gold for query in dataset.queries] == [{"mcp-server-disk.read_file": 1.0}]
