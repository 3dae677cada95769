"""In which forms an answer was shown is read off what the model got, however the host wraps it."""

import json

import pytest

from hosts.reading import Sent, forms

TEXT = "1 tool\n- tickets__list_tickets(project: string) [1.00 fts, read] List them.\nCall one."
STRUCTURED = {"tools": [{"name": "tickets__list_tickets"}], "query": "list"}
COMPACT = json.dumps(STRUCTURED)
CONTENT = [{"type": "text", "text": TEXT}]
ANSWER = {"content": CONTENT, "structuredContent": STRUCTURED}


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ("", {}),
        ("Permission denied [1].", {}),
        (TEXT, {"text": 1}),
        (f"<untrusted>\n{TEXT}\n</untrusted>", {"text": 1}),
        (COMPACT, {"structured": 1}),
        (f"Wall time: 0.1\nOutput:\n{COMPACT}", {"structured": 1}),
        (f"{TEXT}\n\n{COMPACT}", {"text": 1, "structured": 1}),
        (json.dumps(CONTENT), {"text": 1}),
        (json.dumps(ANSWER), {"text": 1, "structured": 1}),
        (json.dumps([ANSWER, CONTENT]), {"text": 2, "structured": 1}),
        (TEXT + TEXT, {"text": 2}),
    ],
)
def test_each_form_is_counted(shown: str, found: dict[str, int]):
    assert forms(shown, Sent("", "", ANSWER, {})) == found
