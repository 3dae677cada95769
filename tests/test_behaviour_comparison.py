"""What benchmarks/behaviour.py takes for a difference, and how it shows one."""

import json

import pytest

from behaviour import WIDTH_MOST, Difference, differences, readable
from behaviour_inputs import request_set
from behaviour_site import ended, messages_in, normalised, result_of

ANSWER = '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"%s"}]}}'


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ('{"ts":"2026-11-22T22:17:06.323Z","event":"x"}', '{"ts":"<time>","event":"x"}'),
        ("since 2026-11-22T22:17:06+00:00.", "since <time>."),
        ("2026-11-22 09:31:10  searched", "<time>  searched"),
        ("claude-code-20261122T223351Z-.claude.json", "claude-code-<time>-.claude.json"),
        ("local-9807.1 (behaviour)", "local-<pid>.1 (behaviour)"),
        ('"duration_ms":462.06,"query"', '"duration_ms": "<duration>","query"'),
        ('"seconds": 0.1,', '"seconds": "<duration>",'),
        ("ok, 168 bytes, 54 ms (hit 1)", "ok, 168 bytes, <duration> (hit 1)"),
        ("ok  server mail: 3 tools in 0.2 s, legacy", "ok  server mail: 3 tools in <duration>, legacy"),
    ],
)
def test_what_no_two_runs_share_is_taken_out(said: str, kept: str):
    assert normalised(said) == kept


@pytest.mark.parametrize(
    "said",
    [
        '"duration_ms":null',
        "at most 50 ms for a pattern, kept for 15 minutes",
        "2026-11-22 is a date, 7148f10 a commit, local-first a word",
        '"score":0.09,"rank":3,"bytes":168',
    ],
)
def test_everything_else_is_compared(said: str):
    assert normalised(said) == said


def test_a_process_is_told_by_its_code_and_both_of_its_streams():
    assert ended("2", b"out\n", b"\xff") == "exit code 2\n--- stdout\nout\n\n--- stderr\n\\xff"


def test_a_result_is_read_from_the_last_line_said():
    told = '{"method":"notifications/tools/list_changed"}\n'
    assert result_of(told + ANSWER % "x") == {"content": [{"type": "text", "text": "x"}]}
    assert result_of(told + "(ended)") == {}


@pytest.mark.parametrize(
    "body", [ANSWER, f"id: 7\ndata: \n\nevent: message\ndata: {ANSWER}\n\n"], ids=["JSON", "a stream"]
)
def test_an_answer_over_http_is_the_same_as_a_stream(body: str):
    assert messages_in(body) == [ANSWER]


def test_a_notice_that_comes_at_any_time_is_not_compared():
    notices = [f'{{"method":"notifications/{kind}/list_changed"}}' for kind in ("tools", "resources", "prompts")]
    assert messages_in("\n\n".join(f"data: {each}" for each in notices)) == notices[:1]


def test_answers_differ_by_a_byte_by_being_missing_and_by_nothing_else():
    there = {"same": "a", "changed": '{"a":1}', "gone": "x"}
    here = {"same": "a", "changed": '{"a": 1}', "new": "y"}
    assert [one.question for one in differences(there, here)] == ["changed", "gone", "new"]
    assert differences(there, dict(there)) == []


def test_a_difference_within_a_text_is_shown_by_its_lines():
    there, here = ANSWER % r"one\ntwo\nthree", ANSWER % r"one\n2\nthree"
    shown = Difference("asked", there, here).shown().splitlines()
    assert shown[0] == "asked"
    assert [line.strip() for line in shown if line.startswith(("  -", "  +"))] == [
        "--- there",
        "+++ here",
        "-two",
        "+2",
    ]


def test_a_difference_of_spaces_alone_is_shown_too():
    assert '+{"a": 1}' in Difference("asked", '{"a":1}', '{"a": 1}').shown()


def test_what_only_one_of_them_answers_is_said():
    assert "answered only there" in Difference("asked", "x", None).shown()
    assert "answered only here" in Difference("asked", None, "x").shown()


def test_what_is_long_is_cut():
    many = Difference("asked", "", "\n".join(map(str, range(1000)))).shown()
    assert many.endswith("lines more")
    assert max(map(len, Difference("asked", "", "x" * 10_000).shown().splitlines())) < WIDTH_MOST + 50


def test_what_is_no_json_is_read_as_it_is():
    assert readable("{ not JSON\nplain") == ["{ not JSON", "plain"]


def test_a_set_is_listed_by_its_servers(tmp_path):
    tools = [
        {"name": "a", "description": None, "schema": {"type": "dict"}, "tags": ["x"], "server": ""},
        {"name": "b", "description": "B.", "schema": None, "tags": [], "server": "other"},
    ]
    file = tmp_path / "tiny.json"
    file.write_text(json.dumps({"tools": tools, "queries": [{"text": "q", "gold": {}}]}))
    lists, queries = request_set(file)
    assert queries == ["q"]
    assert lists == {
        "tiny": [{"name": "a", "description": "", "inputSchema": {"type": "object"}, "_meta": {"tags": ["x"]}}],
        "other": [{"name": "b", "description": "B.", "inputSchema": {"type": "object"}}],
    }
