"""Entries of mcpServers: their targets, their secrets, what is left out and what is wrong."""

from typing import Any

import pytest

from toolcrib.config.launching import SAFE_WINDOWS, ChildEnvironments, safe_names
from toolcrib.config.private_values import masked
from toolcrib.config.settings import HttpTarget, ServerSettings, StdioTarget


@pytest.fixture
def server(load_server: Any) -> Any:
    def run(*args: Any, **more: Any) -> ServerSettings:
        return load_server(*args, **more).servers["it"]

    return run


# Targets


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ({"url": "https://host/mcp"}, "http"),
        ({"type": "http", "url": "https://host/mcp"}, "http"),
        ({"type": "streamable-http", "url": "https://host/mcp"}, "http"),
        ({"type": "streamableHttp", "url": "https://host/mcp"}, "http"),
        ({"type": "streamable_http", "url": "https://host/mcp"}, "http"),
        ({"type": "sse", "url": "https://host/mcp"}, "sse"),
    ],
)
def test_an_entry_with_a_url_is_reached_over_http(entry: Any, transport: str, server: Any):
    target = server({**entry, "headers": {"X-Key": "${KEY}"}}, KEY="value").target
    assert target == HttpTarget("https://host/mcp", {"X-Key": "value"}, sse=transport == "sse")


@pytest.mark.parametrize("entry", [{}, {"type": "stdio"}, {"args": None, "env": None, "cwd": None, "url": None}])
def test_an_entry_with_a_command_is_started(entry: Any, server: Any):
    target = server({"command": "run", **entry}).target
    assert isinstance(target, StdioTarget)
    assert (target.command, target.args, target.cwd) == ("run", (), None)


def test_the_public_url_has_no_user_and_no_query():
    assert HttpTarget("https://u:p@host:8080/mcp?key=1#x", {}).public_url == "https://host:8080/mcp"


def test_variables_are_filled_in_everywhere_in_an_entry(server: Any):
    target = server({"command": "${C}", "args": ["${C}x"], "env": {"E": "${C}"}, "cwd": "/${C}"}, C="c").target
    assert (target.command, target.args, target.env["E"], str(target.cwd)) == ("c", ("cx",), "c", "/c")


# Environment


def test_a_process_gets_the_safe_and_needed_variables_its_own_and_the_marker(server: Any):
    variables = {
        "PATH": "/bin", "USER": "u", "LC_ALL": "C", "HTTPS_PROXY": "p", "no_proxy": "n", "SSL_CERT_FILE": "/c",
        "npm_config_registry": "r", "UV_INDEX": "i", "SSH_AUTH_SOCK": "/s", "TZ": "UTC", "TERM": "() { :; }",
        "AWS_SECRET": "s", "OPENAI_API_KEY": "k", "LD_PRELOAD": "l",
    }  # fmt: skip
    env = server({"command": "x", "env": {"OWN": "o", "PATH": "/own"}}, **variables).target.env
    assert set(env) - {"HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"} == {
        "PATH", "USER", "LC_ALL", "HTTPS_PROXY", "no_proxy", "SSL_CERT_FILE", "npm_config_registry", "UV_INDEX",
        "SSH_AUTH_SOCK", "TZ", "OWN", "TOOLCRIB_PARENT",
    }  # fmt: skip
    assert env["PATH"] == "/own"
    assert env["TOOLCRIB_PARENT"] == "1"


def test_globs_let_a_process_inherit_more(server: Any):
    env = server({"command": "x"}, {"inherit_env": ["AWS_*"]}, AWS_REGION="eu", AZURE="no").target.env
    assert env["AWS_REGION"] == "eu"
    assert "AZURE" not in env


def test_an_entry_cannot_take_the_marker_away(server: Any):
    assert server({"command": "x", "env": {"TOOLCRIB_PARENT": ""}}).target.env["TOOLCRIB_PARENT"] == "1"


def test_other_systems_have_other_safe_names():
    assert safe_names("win32") == SAFE_WINDOWS
    assert "HOME" in safe_names("linux")
    assert ChildEnvironments({}).build((), {}) == {"TOOLCRIB_PARENT": "1"}


# Secrets


def test_what_may_be_a_secret_is_known(server: Any):
    stdio = server(
        {"command": "x", "args": ["--key", "${KEY}"], "env": {"A": "abcdef", "B": "short", "C": "123456789"}},
        KEY="from-variable",
    )
    assert set(stdio.secrets) == {"from-variable", "abcdef"}
    http = server(
        {
            "url": "https://user99:p%40ssword@host/?q=que%20ry&x",
            "headers": {"Authorization": "Bearer abcdefgh"},
        }
    )
    assert set(http.secrets) == {
        "user99", "p%40ssword", "p@ssword", "que%20ry", "que ry", "Bearer abcdefgh", "abcdefgh",
    }  # fmt: skip


def test_no_secret_of_a_server_and_no_token_gets_past_the_configs_redactor(load_document: Any):
    settings = load_document(
        {
            "mcpServers": {
                "a": {"command": "x", "env": {"KEY": "one-secret"}},
                "b": {"url": "https://h/?k=another-one"},
            },
            "toolcrib": {"http": {"tokens": [{"token": "the-token-of-ann", "subject": "ann"}]}},
        }
    )
    said = "one-secret, another-one, the-token-of-ann and anna@corp.io"
    assert settings.redactor.redact(said) == "***, ***, *** and [REDACTED_EMAIL]"
    assert settings.servers["a"].redactor.clean(said) == said.replace("one-secret", "***")


def test_what_every_server_is_told_is_no_secret(server: Any, environ: dict[str, str]):
    assert server({"command": "x", "args": ["${HOME}"], "env": {"X": "${HOME}"}}).secrets == ()


@pytest.mark.parametrize(
    "args",
    [
        ["--api-key=canary"],
        ["--token", "canary"],
        ["-password", "canary"],
        ["-e", "GITHUB_TOKEN=canary"],
        ["--header", "Authorization: Bearer canary"],
        ["--header=Authorization: Bearer canary-1"],
        ["-H", "X-Api-Key: canary"],
        ["postgresql://ann:canary@db/shop"],
        ["--url=https://host/mcp?key=canary"],
        ["--anything", "sk-canary0123456789abcd"],
        ["say", "Bearer canary-1234"],
    ],
    ids=" ".join,
)
def test_secrets_in_arguments_are_known_and_never_shown(args: list[str], server: Any):
    it = server({"command": "x", "args": args})
    assert it.target.args == tuple(args)
    assert "canary" not in it.redactor.clean(f"it said {' '.join(args)}")
    assert "canary" not in " ".join(masked(args))


@pytest.mark.parametrize(
    "args",
    [
        ["-y", "@scope/server-memory"],
        ["--directory", "/srv/keys", "--allow-write"],
        ["--keyboard=dvorak", "--author=ann", "--max-tokens=100000"],
        ["https://host/mcp"],
        ["--token", "--verbose"],
        ["-e", "LANG=C"],
    ],
    ids=" ".join,
)
def test_what_is_no_secret_is_shown(args: list[str], server: Any):
    assert masked(args) == args
    assert server({"command": "x", "args": args}).redactor.clean(" ".join(args)) == " ".join(args)


def test_a_secret_of_an_argument_is_masked_however_short():
    assert masked(["--pin", "12", "--password=12"]) == ["--pin", "12", "--password=***"]


# Left out


@pytest.mark.parametrize(
    ("entry", "options", "reason"),
    [
        ({"command": "x", "disabled": True}, {}, "is disabled"),
        ({"command": "x"}, {"enabled": False}, "is disabled"),
        ({"command": "${NOT_SET}"}, {}, "the variable NOT_SET is not set"),
        (
            {"url": "${U1}", "headers": {"a": "${U2} ${U1}"}},
            {},
            "the variable U1 is not set; the variable U2 is not set",
        ),
        ({"command": "toolcrib"}, {}, "would start toolcrib inside toolcrib"),
        ({"command": "${ME}"}, {}, "would start toolcrib inside toolcrib"),
    ],
)
def test_an_entry_that_cannot_be_used_is_left_out_once_with_the_reason(
    entry: Any, options: Any, reason: str, load_server: Any
):
    got = load_server(entry, options, ME="/opt/bin/toolcrib")
    assert got.servers == {}
    assert [(problem.path, problem.reason) for problem in got.skipped] == [("mcpServers.it", reason)]


def test_keys_of_other_programs_in_an_entry_are_noticed(load_server: Any):
    got = load_server({"command": "x", "autoApprove": [], "arg": ["y"]})
    assert list(got.servers) == ["it"]
    [notice] = got.notices
    assert str(notice) == "mcpServers.it: toolcrib does not read autoApprove, arg (arg: did you mean args?)"


RULES = [
    ({"excludeTools": ["drop", "wipe"]}, 'write toolcrib.policy.deny: ["it.drop", "it.wipe"]'),
    ({"disabled_tools": ["drop"]}, 'write toolcrib.policy.deny: ["it.drop"]'),
    ({"includeTools": ["read"]}, 'put tools that may be called into toolcrib.policy.allow: ["it.read"]'),
    ({"enabled_tools": []}, 'write toolcrib.policy.deny: ["it.*"]'),
    ({"tools": ["read"]}, 'put tools that may be called into toolcrib.policy.allow: ["it.read"]'),
    ({"tools": {"drop": False}}, 'write toolcrib.policy.deny: ["it.drop"]'),
    ({"toolPermissions": {"drop": "deny"}}, 'write toolcrib.policy.deny: ["it.drop"]'),
    (
        {"tools": {"include": ["read"], "exclude": ["it__drop"]}},
        (
            'put tools that may be called into toolcrib.policy.allow: ["it.read"]; '
            'write toolcrib.policy.deny: ["it.it__drop", "it.drop"]'
        ),
    ),
    ({"blockedToolNames": "drop"}, 'put tools that must not be called into toolcrib.policy.deny, as "SERVER.TOOL"'),
    ({"deny": ["a", 3]}, 'put tools that must not be called into toolcrib.policy.deny, as "SERVER.TOOL"'),
]


@pytest.mark.parametrize(("keys", "hint"), RULES, ids=lambda each: next(iter(each)) if isinstance(each, dict) else "")
def test_a_server_with_rules_of_another_client_is_not_served_and_the_hint_says_what_to_write(
    keys: Any, hint: str, load_server: Any
):
    got = load_server({"command": "x", **keys})
    assert got.servers == {}
    [problem] = got.skipped
    [name] = keys
    assert problem.reason == (f"restricts its tools with another client's keys ({name}), which toolcrib does not apply")
    assert problem.hint == f"{hint}; then remove {name} here"


# Options


def test_what_is_said_about_all_servers_holds_unless_one_says_otherwise(server: Any):
    section = {"server_defaults": {"idle_stop_s": 60, "call_timeout_s": 7}}
    assert server(BASE, toolcrib=section).options.idle_stop_s == 60
    own = server(BASE, {"idle_stop_s": 0}, toolcrib=section).options
    assert (own.idle_stop_s, own.call_timeout_s, own.connect_timeout_s) == (0, 7, 30)


# Fingerprints


def test_the_fingerprint_is_a_hash_that_stays_the_same(server: Any):
    entry = {"command": "x", "env": {"A": "1", "B": "2"}}
    first = server(entry)
    again = server({"env": {"B": "2", "A": "1"}, "command": "x"}, TZ="elsewhere")
    assert len(first.fingerprint) == 64
    assert first.fingerprint == again.fingerprint


BASE = {"command": "x", "args": ["a"], "env": {"A": "1"}}
WEB = {"url": "https://u:p@host/mcp?k=1", "headers": {"X": "1"}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((BASE,), ({**BASE, "command": "y"},)),
        ((BASE,), ({**BASE, "args": ["b"]},)),
        ((BASE,), ({**BASE, "env": {"A": "2"}},)),
        ((BASE,), ({**BASE, "cwd": "/tmp"},)),
        ((BASE,), (BASE, {"default_loading_mode": "always"})),
        ((BASE,), (BASE, {"tool_examples": {"t": [{"args": {"a": 1}}]}})),
        ((WEB,), ({**WEB, "url": "https://u:p@host/other?k=1"},)),
        ((WEB,), ({**WEB, "url": "https://u:p@host/mcp?k=2"},)),
        ((WEB,), ({**WEB, "url": "https://u:q@host/mcp?k=1"},)),
        ((WEB,), ({**WEB, "headers": {"X": "2"}},)),
        ((WEB,), ({**WEB, "type": "sse"},)),
    ],
)
def test_a_change_of_an_entry_changes_its_fingerprint(before: Any, after: Any, server: Any):
    assert server(*before).fingerprint != server(*after).fingerprint


@pytest.mark.parametrize(
    "section",
    [
        {"policy": {"deny": ["*.x"]}},
        {"policy": {"visibility": [{"when": {"profile": "p"}, "deny": ["*.x"]}]}},
        {"tool_examples": {"max_examples_per_tool": 1}},
        {"tool_search": {"default_loading_mode": "always"}},
        {"tool_search": {"always_loaded_patterns": ["it.*"]}},
        {"limits": {"name_max": 49}},
    ],
)
def test_a_general_setting_that_shapes_rows_changes_the_fingerprint(section: Any, server: Any):
    assert server(BASE).fingerprint != server(BASE, toolcrib=section).fingerprint


def test_a_setting_that_shapes_no_row_changes_no_fingerprint(server: Any):
    section = {"limits": {"parallel_starts": 9}, "http": {"port": 1}}
    assert server(BASE).fingerprint == server(BASE, toolcrib=section).fingerprint


def test_the_spelling_of_an_entry_changes_no_fingerprint(server: Any):
    spelled = {**WEB, "type": "streamable-http", "headers": {"x": "1"}}
    assert server(WEB).fingerprint == server(spelled).fingerprint
