"""One bad entry of mcpServers is one bad entry: it is left out and named, and its neighbours are served."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.base.errors import ConfigError
from toolcrib.clients.importing import identity
from toolcrib.clients.known import client_table
from toolcrib.clients.reading import UserEnvironment, read_file
from toolcrib.config.findings import Skipped
from toolcrib.config.loading import Given, load
from toolcrib.config.settings import HttpTarget, Settings, StdioTarget

GOOD = {"command": "good"}


@pytest.fixture
def left_out(load_document: Any) -> Any:
    """Load an entry between two good ones, and return why it is left out."""

    def run(entry: Any, **variables: str) -> Skipped:
        return _left_out(load_document({"mcpServers": {"a": GOOD, "it": entry, "z": GOOD}}, **variables))

    return run


def _left_out(settings: Settings) -> Skipped:
    assert [*settings.servers] == ["a", "z"]
    [problem] = settings.skipped
    assert problem.path == "mcpServers.it"
    return problem


# Numbers, true and false are texts


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("3000", "3000"),
        ("-1", "-1"),
        ("0", "0"),
        ("true", "true"),
        ("false", "false"),
        ("3.10", "3.10"),
        ("1.0", "1.0"),
        ("1e3", "1e3"),
        ("12345678901234567890", "12345678901234567890"),
        ("0.1", "0.1"),
    ],
)
@pytest.mark.parametrize("name", ["crib.json", "crib.json5", "crib.yaml"])
def test_a_number_is_taken_as_the_text_that_was_written(written: str, text: str, name: str, load_text: Any):
    comment = "# x\n" if name.endswith("yaml") else "// x\n" if name.endswith("5") else ""
    started = f'"a": {{"command": "x", "args": ["--port", {written}], "env": {{"PORT": {written}}}}}'
    reached = f'"b": {{"url": "https://h", "headers": {{"X-Port": {written}}}}}'
    got = load_text(f'{comment}{{"mcpServers": {{{started}, {reached}}}}}', name)
    assert (got.skipped, got.notices) == ((), ())
    process, http = got.servers["a"].target, got.servers["b"].target
    assert isinstance(process, StdioTarget)
    assert isinstance(http, HttpTarget)
    assert (process.args, process.env["PORT"], http.headers) == (("--port", text), text, {"X-Port": text})


def test_a_number_and_its_text_are_the_same_entry(load_document: Any):
    def fingerprint(port: Any) -> str:
        entry = {"command": "x", "args": [port], "env": {"PORT": port}}
        return load_document({"mcpServers": {"it": entry}}).servers["it"].fingerprint

    assert fingerprint(80) == fingerprint("80") != fingerprint(81)


def test_a_client_that_writes_the_text_has_the_same_server(tmp_path: Path):
    file = tmp_path / "mcp.json"
    file.write_text(
        '{"mcpServers": {"a": {"command": "x", "args": [3.10, true], "env": {"PORT": 80, "DEBUG": false}},'
        '"b": {"url": "https://h", "headers": {"X-N": 1}}}}'
    )
    a, b = read_file(file, client_table().other, UserEnvironment({}, tmp_path, "linux")).servers
    assert a.read.entry == {"command": "x", "args": ["3.10", "true"], "env": {"PORT": "80", "DEBUG": "false"}}
    assert b.read.entry["headers"] == {"X-N": "1"}
    ours = {"command": "x", "args": ["3.10", True], "env": {"PORT": 80, "DEBUG": False}}
    assert identity(ours).fits(identity(a.read.entry))


# What is left out


MALFORMED = [
    (None, "it must be an object"),
    ({}, "it needs a command or a url"),
    ([], "it must be an object"),
    ("npx", "it must be an object"),
    (3, "it must be an object"),
    ({"disabled": False}, "it needs a command or a url"),
    ({"command": None, "url": None}, "it needs a command or a url"),
    ({"command": "x", "url": "https://h"}, "it has a command and a url"),
    ({"command": 3}, "command must be text"),
    ({"command": True}, "command must be text"),
    ({"command": " "}, "command must not be empty"),
    ({"command": ["x"]}, "command is a list, as opencode writes it"),
    ({"command": {"path": "x"}}, "command is an object, as Zed writes it"),
    ({"httpUrl": "https://h"}, "it has httpUrl, the url of Gemini CLI and Qwen Code"),
    ({"cmd": "x"}, "it has cmd, the command of Goose"),
    ({"command": "x", "args": "y"}, "args must be a list"),
    ({"command": "x", "args": {"y": 1}}, "args must be a list"),
    ({"command": "x", "args": [None]}, "args[0] must be text"),
    ({"command": "x", "args": ["y", ["z"]]}, "args[1] must be text"),
    ({"command": "x", "env": []}, "env must be an object"),
    ({"command": "x", "env": "A=b"}, "env must be an object"),
    ({"command": "x", "env": {"PORT": None}}, "env.PORT must be text"),
    ({"command": "x", "env": {"PORT": {"value": 1}}}, "env.PORT must be text"),
    ({"command": "x", "env": {"A=B": "c"}}, "env.A… is not a name for a variable"),
    ({"command": "x", "env": {"": "c"}}, 'env."" is not a name for a variable'),
    ({"command": "x", "cwd": 3}, "cwd must be text"),
    ({"command": "x", "type": 3}, "type must be text"),
    ({"command": "x", "type": "http"}, "type is http, which needs a url"),
    ({"command": "x", "type": "local"}, "type must be stdio, http, streamable-http or sse"),
    ({"url": "https://h", "type": "stdio"}, "type is stdio, which needs a command"),
    ({"url": "https://h", "type": "ws"}, "type must be stdio, http, streamable-http or sse"),
    ({"url": "https://h", "type": "remote"}, "type must be stdio, http, streamable-http or sse"),
    ({"url": 3}, "url must be text"),
    ({"url": "https://h", "headers": {"a": None}}, "headers.a must be text"),
    ({"url": "https://h", "headers": ["a: b"]}, "headers must be an object"),
    ({"url": "https://h", "headers": {"a b": "c"}}, "headers.a… is not a header that can be sent"),
    ({"url": "https://h", "headers": {"a": "secret\r\nX: y"}}, "headers.a is not a header that can be sent"),
    ({"url": "https://h", "headers": {"a": "schlüssel"}}, "headers.a is not a header that can be sent"),
    ({"command": "x\0"}, "command holds a NUL or a character that is not Unicode text"),
    (
        {"command": "x", "metadata": [{"a\0": 1}]},
        "metadata[0].a has a name that holds a NUL or a character that is not",
    ),
    ({"command": "x", "env": {"A": float("nan")}}, "env.A is not a finite number"),
    ({"command": "x", "args": [float("-inf")]}, "args[0] is not a finite number"),
]


@pytest.mark.parametrize(("entry", "reason"), MALFORMED, ids=[reason for _, reason in MALFORMED])
def test_a_malformed_entry_is_left_out_alone_with_the_reason_and_what_to_do(entry: Any, reason: str, left_out: Any):
    problem = left_out(entry)
    assert problem.reason.startswith(f"cannot be used: {reason}")
    assert (problem.is_mistake, problem.is_malformed, problem.key) == (True, True, "it")
    assert any(
        words in problem.hint
        for words in ("write ", "use ", "keep ", "remove ", "rename ", "name it ", "is the program")
    )


@pytest.mark.parametrize("entry", [entry for entry, _ in MALFORMED if isinstance(entry, dict)])
def test_a_malformed_entry_that_is_switched_off_is_disabled_and_nothing_else(entry: Any, left_out: Any):
    found = left_out({**entry, "enabled": "${USE:-off}"})
    assert found == Skipped("mcpServers.it", "is disabled", 'enabled is "off"', key="it", public="is disabled")
    assert left_out({**entry, "disabled": True}) == Skipped(
        "mcpServers.it", "is disabled", key="it", public="is disabled"
    )


@pytest.mark.parametrize(
    ("entry", "hint"),
    [
        ({"comand": "x"}, "comand: did you mean command?"),
        ({"envFile": ".env"}, 'write {"command": "PROGRAM", "args": []} or {"url": "https://HOST/PATH"}'),
        ({"command": "x", "type": "http", "environment": {}}, "remove type, or write a url instead"),
        (
            {"command": "x", "type": 3},
            "write stdio, http, streamable-http or sse, or remove it: command or url says which",
        ),
        ({"command": "x\0"}, "remove that character"),
        ({"command": "x", "type": "sse", "commandArgs": []}, "remove type, or write a url instead"),
        ({"url": "https://h", "type": "stdio", "urls": []}, "remove type, or write a command instead"),
        ({"command": 3}, 'write the name or the path of a program, as text: "npx"'),
    ],
)
def test_the_remedy_fits_the_mistake(entry: Any, hint: str, left_out: Any):
    assert left_out(entry).hint == hint


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "x", "env": {"API_KEY=canary": ""}},
        {"command": "x", "env": {"API_KEY: canary": None}},
        {"command": "x", "env": {"A": {"canary": 1}}},
        {"url": "https://h", "headers": {"X-Key: canary": "a"}},
        {"url": "https://h", "headers": {"X-Key canary": None}},
        {"url": "https://canary@"},
        {"command=canary": "x"},
        {"command canary": "x"},
        {"command": "x", "metadata": {"A=canary": float("inf")}},
    ],
)
def test_a_value_in_the_place_of_a_name_is_not_told(entry: Any, left_out: Any):
    problem = left_out(entry)
    assert "canary" not in f"{problem} {problem.public}"


def test_callers_are_told_no_name_that_the_author_has_chosen(left_out: Any):
    problem = left_out({"command": "x", "env": {"canary": None, "other": None}, "x": {"canary": float("inf")}})
    assert problem.public == "cannot be used: a key of it is not a finite number (write a text in quotes, or remove it)"
    problem = left_out({"command": "x", "env": {"canary": None, "other": None}})
    assert problem.public == 'cannot be used: env.… must be text (write an object of texts: {"NAME": "VALUE"})'


def test_a_key_that_is_nearly_ours_is_told_to_the_author_alone(left_out: Any):
    problem = left_out({"comand": "x"})
    assert "comand" in problem.hint
    assert problem.public == (
        'cannot be used: it needs a command or a url (write {"command": "PROGRAM", "args": []} or {"url": '
        '"https://HOST/PATH"})'
    )


def test_a_type_that_a_variable_leaves_open_is_about_the_variable(left_out: Any):
    assert left_out({"command": "x", "type": "${T}"}).reason == "the variable T is not set"


def test_a_mistake_is_of_the_entry_and_not_of_one_that_looks_the_same(load_document: Any):
    got = load_document({"mcpServers": {"maps": GOOD, "maps ": {"command": "x", "args": "y"}}})
    assert (got.why_left_out("maps"), got.why_left_out("maps ")[:15]) == ("", "cannot be used:")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host/mcp",
        "localhost:3000/mcp",
        "ftp://host",
        "ws://host",
        "https://",
        "https://[::1",
        "https://h:99999",
        "https://h:0",
        "https://h/ x",
        "${E}",
    ],
)
def test_a_url_that_cannot_be_reached_is_told_and_not_repeated(url: str, left_out: Any):
    problem = left_out({"url": url}, E="")
    assert problem.reason == "cannot be used: url must be a URL like https://host/path"
    assert "://" in problem.hint


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('"it": {"command": "x", "command": "y"}', "command is given twice"),
        ('"it": {"command": "x", "env": {"A": "1", "A": "2"}}', "env.A is given twice"),
        ('"it": {"command": "x"}, "it": {"command": "y"}', "it is given twice"),
        ('"it": {"command": "x", "disabled": true}, "it": {"command": "y"}', "it is given twice"),
        ('"it": {"command": "x", "env": {"A": 1e999}}', "env.A is not a finite number"),
        ('"it": {"command": "\\ud800"}', "command holds a NUL or a character that is not Unicode text"),
        (
            '"it\\u0000": {"command": "x"}',
            "it has a name that holds a NUL or a character that is not Unicode text",
        ),
    ],
)
def test_what_no_program_accepts_in_an_entry_concerns_that_entry_alone(text: str, reason: str, load_text: Any):
    got = load_text(f'{{"mcpServers": {{"a": {{"command": "good"}}, {text}, "z": {{"command": "good"}}}}}}')
    assert _left_out(got).reason == f"cannot be used: {reason}"


def test_a_name_in_two_places_is_no_repetition(load_text: Any):
    text = '{"mcpServers": {"a.b": {"command": "x"}, "a": {"command": "x", "b": {"c": 1, "c": 2}}}}'
    got = load_text(text)
    assert ([*got.servers], got.why_left_out("a"), got.why_left_out("a.b")) == (
        ["a.b"],
        "cannot be used: b.c is given twice (keep one)",
        "",
    )


def test_an_empty_name_leaves_out_its_server(load_document: Any):
    got = load_document({"mcpServers": {" ": GOOD, "a": GOOD}})
    assert [*got.servers] == ["a"]
    assert str(got.skipped[0]).startswith('mcpServers."": cannot be used: it must have a name (')


def test_a_name_cannot_steer_a_terminal(load_document: Any):
    [problem] = load_document({"mcpServers": {"a\x1b[2J\nb": {}}}).skipped
    assert str(problem).startswith("mcpServers.a[2J b: cannot be used: it needs a command or a url")


def test_many_mistakes_of_one_entry_are_counted(left_out: Any):
    problem = left_out({"command": "x", "env": {f"V{number}": None for number in range(50)}})
    assert problem.reason == (
        "cannot be used: env.V0 must be text; env.V1 must be text; env.V2 must be text; and 47 more"
    )
    assert problem.hint == 'write an object of texts: {"NAME": "VALUE"}'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("canary-value"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["command", "args", "env", "cwd", "type", "url", "headers", "disabled", "enabled", "tools"])


@given(entry=JSON | st.dictionaries(KEYS, JSON, max_size=4))
def test_whatever_an_entry_is_its_neighbours_are_served_and_it_is_served_or_named(
    tmp_path_factory: pytest.TempPathFactory, entry: Any
):
    file = tmp_path_factory.getbasetemp() / "any.json"
    file.write_text(json.dumps({"mcpServers": {"a": GOOD, "it": entry, "z": GOOD}}))
    got = load(file, {}, file.parent)
    assert {"a", "z"} <= got.servers.keys()
    assert ("it" in got.servers) is not bool(got.why_left_out("it"))
    for problem in got.skipped:
        assert "canary" not in str(problem)
        assert problem.hint or problem.reason == "is disabled" or "toolcrib inside" in problem.reason


# What concerns the whole file


@pytest.mark.parametrize(
    ("section", "path"),
    [
        ({"limits": {"name_max": 1000}}, "toolcrib.limits.name_max"),
        ({"policy": {"deny": "x"}}, "toolcrib.policy.deny"),
        ({"polcy": {}}, "toolcrib.polcy"),
        ({"servers": {"a": {"start": "soon"}}}, "toolcrib.servers.a.start"),
        ({"servers": {"gone": {}}}, "toolcrib.servers.gone"),
    ],
)
def test_what_concerns_the_whole_file_refuses_to_start_and_all_mistakes_are_told(
    section: Any, path: str, load_document: Any
):
    with pytest.raises(ConfigError) as caught:
        load_document({"mcpServers": {"a": GOOD, "it": {}}, "toolcrib": section})
    assert [problem.path for problem in caught.value.problems] == [path, "mcpServers.it"]


@pytest.mark.parametrize("servers", ["[]", '"x"', "3"])
def test_servers_that_are_no_object_refuse_to_start(servers: str, load_text: Any):
    with pytest.raises(ConfigError, match="mcpServers: must be an object"):
        load_text(f'{{"mcpServers": {servers}}}')


def test_a_program_is_told_of_its_own_entry_by_an_error(tmp_path: Path, load_document: Any):
    for given_here in (Given({"mcpServers": {"it": {}}}), Given(entries={"it": {"command": 3}})):
        with pytest.raises(ConfigError, match=r"mcpServers\.it: cannot be used"):
            load(None, {}, tmp_path, given=given_here)
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"it": {}}}')
    assert load(file, {}, tmp_path, given=Given(entries={"a": GOOD})).servers.keys() == {"a"}
    with pytest.raises(ConfigError, match="config of this program") as caught:
        load(file, {}, tmp_path, given=Given(entries={"b": {}}))
    assert [problem.path for problem in caught.value.problems] == ["mcpServers.b"]
