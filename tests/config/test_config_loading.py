"""Where the config is found, what it comes to, and that everything wrong with it is said at once."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from config.source_document import SOURCE_SECTION
from toolcrib.base.errors import ConfigError, Problem
from toolcrib.base.model import Caller, LoadingMode
from toolcrib.config.loading import REASONS, load
from toolcrib.config.schema import ToolcribSection
from toolcrib.config.settings import Settings, StdioTarget
from toolcrib.policy.rules import policy_of

REPOSITORY = Path(__file__).parent.parent.parent


def write(file: Path, document: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


def server(command: str) -> dict[str, Any]:
    return {"mcpServers": {command: {"command": command}}}


def problems_of(document: Any, load_document: Any, **variables: str) -> dict[str, Problem]:
    with pytest.raises(ConfigError) as caught:
        load_document(document, **variables)
    return {problem.path: problem for problem in caught.value.problems}


# Finding the file


def test_without_any_file_the_defaults_hold_and_there_is_no_server(tmp_path: Path, environ: dict[str, str]):
    got = load(None, environ, tmp_path)
    assert got.config_path is None
    assert got.servers == {}
    assert got.source == "the built-in defaults"
    assert got.notices == ()
    assert got.toolcrib.tool_search.default_loading_mode is LoadingMode.DEFERRED
    assert got.cache_dir == tmp_path / "cache" / "toolcrib" / "default"


def test_a_named_file_comes_before_the_environment_and_that_before_the_users_own(
    tmp_path: Path, environ: dict[str, str]
):
    write(tmp_path / "etc" / "toolcrib" / "toolcrib.json", server("own"))
    assert list(load(None, environ, tmp_path).servers) == ["own"]
    environ["TOOLCRIB_CONFIG"] = str(write(tmp_path / "by-variable.json", server("variable")))
    assert list(load(None, environ, tmp_path).servers) == ["variable"]
    named = write(tmp_path / "named.json", server("named"))
    got = load(named, environ, tmp_path)
    assert list(got.servers) == ["named"]
    assert got.config_path == named
    assert got.source == str(named)


def test_an_empty_variable_names_no_file(tmp_path: Path, environ: dict[str, str]):
    assert load(None, {**environ, "TOOLCRIB_CONFIG": ""}, tmp_path).config_path is None


def test_a_relative_name_starts_from_the_working_directory_and_a_tilde_from_the_home(
    tmp_path: Path, environ: dict[str, str]
):
    here, home = write(tmp_path / "a.json", {}), write(tmp_path / "home" / "b.json", {})
    assert load(Path("a.json"), environ, tmp_path).config_path == here
    assert load(None, {**environ, "TOOLCRIB_CONFIG": "~/b.json"}, tmp_path).config_path == home


def test_of_several_files_of_the_user_the_yaml_one_is_used_and_the_others_are_noticed(
    tmp_path: Path, environ: dict[str, str]
):
    directory = tmp_path / "etc" / "toolcrib"
    other = write(directory / "toolcrib.json", server("json"))
    (directory / "toolcrib.yaml").write_text("mcpServers: {yaml: {command: yaml}}", encoding="utf-8")
    got = load(None, environ, tmp_path)
    assert list(got.servers) == ["yaml"]
    assert [notice.path for notice in got.notices] == [str(other)]


@pytest.mark.parametrize("name", ["mcp.json", ".mcp.json", "toolcrib.yaml", "toolcrib.yml", "toolcrib.json"])
def test_a_file_in_the_working_directory_is_never_used_by_itself_but_noticed(
    name: str, tmp_path: Path, environ: dict[str, str]
):
    write(tmp_path / name, server("evil"))
    got = load(None, environ, tmp_path)
    assert got.servers == {}
    [notice] = got.notices
    assert notice.path == name
    assert f"--config {name}" in notice.hint
    assert list(load(Path(name), environ, tmp_path).servers) == ["evil"]
    assert load(Path(name), environ, tmp_path).notices == ()


def test_the_users_config_directory_may_be_the_working_directory(tmp_path: Path, environ: dict[str, str]):
    directory = tmp_path / "etc" / "toolcrib"
    write(directory / "toolcrib.json", server("own"))
    got = load(None, environ, directory)
    assert list(got.servers) == ["own"]
    assert got.notices == ()


def test_a_directory_that_cannot_be_looked_into_holds_no_config(tmp_path: Path, environ: dict[str, str]):
    too_long = tmp_path / ("x" * 300)
    assert load(None, environ, too_long).notices == ()


def test_the_platform_says_where_the_users_directories_are(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    got = load(None, {"HOME": environ["HOME"]}, tmp_path)
    assert got.cache_dir.name == "default"
    assert tmp_path in got.cache_dir.parents


@pytest.mark.parametrize("name", ["missing.json", "directory", "nul\0.json"])
def test_a_named_file_that_cannot_be_read_is_an_error(name: str, tmp_path: Path, environ: dict[str, str]):
    (tmp_path / "directory").mkdir()
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / name, environ, tmp_path)
    [problem] = caught.value.problems
    assert problem.path == "file"
    assert str(tmp_path) in str(caught.value)


# What it comes to


def test_a_plain_mcp_json_works_as_it_is(load_document: Any, tmp_path: Path):
    got = load_document({"mcpServers": {"git": {"command": "mcp-server-git", "args": ["--repository", "."]}}})
    target = got.servers["git"].target
    assert isinstance(target, StdioTarget)
    assert (target.command, target.args, target.cwd) == ("mcp-server-git", ("--repository", "."), None)
    assert got.skipped == ()
    assert got.notices == ()


@pytest.mark.parametrize("document", [{}, {"mcpServers": None, "toolcrib": None}, {"mcpServers": {}}])
def test_an_empty_config_is_a_config(document: Any, load_document: Any):
    assert load_document(document).servers == {}


def test_keys_of_other_programs_are_noticed_and_ignored(load_document: Any):
    got = load_document({"$schema": "x", "mcpServer": {}, "numStartups": 3})
    [notice] = got.notices
    assert "mcpServer, numStartups" in notice.reason
    assert "did you mean mcpServers?" in notice.hint


def test_many_foreign_keys_make_one_short_notice(load_document: Any):
    [notice] = load_document({f"key{number}": 1 for number in range(50)}).notices
    assert notice.reason.endswith("and 30 more")


def test_paths_are_relative_to_the_config_file(load_document: Any, tmp_path: Path):
    got = load_document(
        {
            "mcpServers": {
                "a": {"command": "./run.sh", "cwd": "work"},
                "b": {"command": "../b", "cwd": "/abs"},
                "c": {"command": "~/c", "cwd": "~"},
            },
            "toolcrib": {
                "cache_dir": "cache",
                "tool_search": {"cache_dir": "tools"},
                "events": {"file": "../events.jsonl"},
            },
        }
    )
    project = tmp_path / "project"
    targets = [server.target for server in got.servers.values()]
    assert [target.command for target in targets] == [
        str(project / "run.sh"),
        str(tmp_path / "b"),
        str(tmp_path / "home" / "c"),
    ]
    assert [target.cwd for target in targets] == [project / "work", Path("/abs"), tmp_path / "home"]
    assert got.cache_dir == project / "cache"
    assert got.tool_cache_dir == project / "tools"
    assert got.events_file == tmp_path / "events.jsonl"


def test_each_config_file_has_a_readable_cache_directory_of_its_own(tmp_path: Path, environ: dict[str, str]):
    first = load(write(tmp_path / "one" / "mcp.json", {}), environ, tmp_path)
    second = load(write(tmp_path / "two" / "mcp.json", {}), environ, tmp_path)
    assert first.cache_dir.parent == tmp_path / "cache" / "toolcrib"
    assert first.cache_dir.name.startswith("one-mcp-")
    assert second.cache_dir.name.startswith("two-mcp-")
    assert len(first.cache_dir.name.rpartition("-")[2]) == 12
    assert first.tool_cache_dir == first.cache_dir
    assert first.events_file == first.cache_dir / "events.jsonl"


def test_one_file_by_two_names_has_one_cache_directory(tmp_path: Path, environ: dict[str, str]):
    file = write(tmp_path / "one" / "mcp.json", {})
    link = tmp_path / "link.json"
    link.symlink_to(file)
    assert load(link, environ, tmp_path).cache_dir == load(file, environ, tmp_path).cache_dir


def test_the_environment_may_name_the_cache_directory_but_the_config_beats_it(load_document: Any, tmp_path: Path):
    variables = {"TOOLCRIB_CACHE_DIR": "elsewhere"}
    assert load_document({}, **variables).cache_dir == tmp_path / "elsewhere"
    named = load_document({"toolcrib": {"cache_dir": "here"}}, **variables)
    assert named.cache_dir == tmp_path / "project" / "here"


def test_the_environment_fills_the_context_that_the_config_leaves_open(load_document: Any):
    variables = {"TOOLCRIB_TENANT_ID": "t", "TOOLCRIB_PROFILE": "p", "TOOLCRIB_SESSION_ID": "s"}
    got = load_document({"toolcrib": {"context": {"profile": "mine"}}}, **variables, TOOLCRIB_PROJECT_ID="")
    context = got.toolcrib.context
    assert (context.tenant_id, context.project_id, context.profile) == ("t", None, "mine")
    assert got.session_id == context.session_id == "s"


def test_the_policy_of_the_config_decides(load_document: Any):
    got = load_document(
        {
            "toolcrib": {
                "policy": {
                    "deny": ["*.drop"],
                    "visibility": [
                        {"when": {"tenant_id": "a"}, "allow": ["git.*"]},
                        {"when": {"profile": ["x", "y"]}, "deny": ["git.push"]},
                    ],
                }
            }
        }
    )
    tenant = policy_of(got.toolcrib.policy).permissions(Caller(tenant_id="a", profile="y"))
    assert tenant.permits("git", "log", "git__log")
    assert not tenant.permits("git", "push", "git__push")
    assert not tenant.permits("db", "read", "db__read")
    assert not policy_of(got.toolcrib.policy).permissions(Caller()).permits("db", "drop", "db__drop")


def test_the_blocks_of_the_source_document_can_be_pasted_in(load_document: Any):
    got = load_document({"toolcrib": SOURCE_SECTION})
    assert not got.notices
    assert [key.path for key in got.without_effect] == [
        "toolcrib.tool_search.fts_fallback_to_regex",
        "toolcrib.skills.fts_fallback_to_regex",
        "toolcrib.tool_search.enable_incremental_index",
        "toolcrib.skills.summarize",
    ]


@pytest.mark.parametrize(("part", "key"), REASONS)
def test_a_key_that_changes_nothing_is_told_of_where_it_is_set_and_only_there(part: str, key: str, load_document: Any):
    default = getattr(getattr(ToolcribSection(), part), key)
    got = load_document({"toolcrib": {part: {key: default}}})
    assert [(each.path, each.reason) for each in got.without_effect] == [(f"toolcrib.{part}.{key}", REASONS[part, key])]
    assert load_document({"toolcrib": {}}).without_effect == ()


def test_a_skill_that_scopes_no_tools_is_told_of(load_document: Any):
    entries = {"review": {"scoped": True}, "release": {"scoped": True, "tools": ["git.*"]}, "letters": {}}
    [told] = load_document({"toolcrib": {"skill_tools": entries}}).without_effect
    assert told.path == "toolcrib.skill_tools.review.scoped"
    assert "has no tools" in told.reason


@pytest.mark.parametrize(
    "scoped",
    [
        {"tool_search": {"skill_scoped_patterns": ["git.*"]}},
        {"server_defaults": {"default_loading_mode": "skill"}},
        {"skill_tools": {"review": {"tools": ["git.log"], "scoped": True}}},
    ],
)
def test_tools_that_no_skill_can_ever_open_are_told_of(scoped: dict[str, Any], load_document: Any):
    [told] = load_document({"toolcrib": {**scoped, "skills": {"enabled": False}}}).without_effect
    assert told.path == "toolcrib.skills.enabled"
    assert "nobody can ever use them" in told.reason
    assert load_document({"toolcrib": scoped}).without_effect == ()


# What is wrong with it


def test_everything_wrong_is_said_at_once_with_paths_and_near_keys(load_document: Any):
    found = problems_of(
        {
            "mcpServers": {"git": {}, "both": {"command": "x", "url": "http://x"}},
            "toolcrib": {
                "tool_serch": {},
                "cache_dir": "${UNSET}",
                "limits": {"name_max": 1000, "nme_max": 1},
                "servers": {"gti": {}, "git": {"start": "soon", "tool_examples": {"x": [{"arg": {}}]}}},
                "policy": {"visibility": [{"when": {"tenant_id": 3}}]},
                "http": {"port": "80"},
            },
        },
        load_document,
    )
    assert set(found) == {
        "mcpServers.git",
        "mcpServers.both",
        "toolcrib.tool_serch",
        "toolcrib.cache_dir",
        "toolcrib.limits.name_max",
        "toolcrib.limits.nme_max",
        "toolcrib.servers.gti",
        "toolcrib.servers.git.start",
        "toolcrib.servers.git.tool_examples.x[0].args",
        "toolcrib.servers.git.tool_examples.x[0].arg",
        "toolcrib.policy.visibility[0].when.tenant_id[0]",
        "toolcrib.http.port",
    }
    assert found["toolcrib.tool_serch"].hint == "did you mean tool_search?"
    assert found["toolcrib.limits.nme_max"].hint == "did you mean name_max?"
    assert found["toolcrib.servers.gti"].hint == "did you mean git?"
    assert found["toolcrib.servers.git.tool_examples.x[0].arg"].hint == "did you mean args?"
    assert found["toolcrib.http.port"].reason == "must be a whole number"


def test_an_unknown_key_near_nothing_is_answered_with_the_known_ones(load_document: Any):
    found = problems_of({"toolcrib": {"gate": {"zzz": 1}}}, load_document)
    known = "call_tools, expose, listing, pass_through_below, pass_through_tokens"
    assert found["toolcrib.gate.zzz"].hint == f"known: {known}"


def test_options_for_a_server_where_there_is_none_are_an_error_without_a_hint(load_document: Any):
    found = problems_of({"toolcrib": {"servers": {"git": {}}}}, load_document)
    assert found["toolcrib.servers.git"].hint == ""


@pytest.mark.parametrize("value", [[], "x", 3, True])
def test_the_two_keys_of_the_file_must_be_objects(value: Any, load_document: Any):
    assert set(problems_of({"mcpServers": value, "toolcrib": value}, load_document)) == {
        "mcpServers",
        "toolcrib",
    }


def test_yes_and_one_are_neither_true_nor_numbers(load_document: Any):
    document = {"toolcrib": {"tool_search": {"enabled": 1, "max_search_results": "5"}, "limits": {"regex_ms": True}}}
    assert set(problems_of(document, load_document)) == {
        "toolcrib.tool_search.enabled",
        "toolcrib.tool_search.max_search_results",
        "toolcrib.limits.regex_ms",
    }


def test_a_token_given_twice_is_an_error_and_stands_in_no_text(load_document: Any):
    tokens = [{"token": "${T}", "subject": "a"}, {"token": "same-secret", "subject": "b"}]
    with pytest.raises(ConfigError) as caught:
        load_document({"toolcrib": {"http": {"tokens": tokens, "port": -1}}}, T="same-secret")
    assert {problem.path for problem in caught.value.problems} == {
        "toolcrib.http.tokens",
        "toolcrib.http.port",
    }
    assert "same-secret" not in str(caught.value)


def test_a_token_that_is_too_short_stands_in_no_text(load_document: Any):
    with pytest.raises(ConfigError) as caught:
        load_document({"toolcrib": {"http": {"tokens": [{"token": "s3cr3t!", "subject": "a"}]}}})
    assert "s3cr3t!" not in str(caught.value)


def test_no_secret_is_shown_by_repr(load_document: Any):
    got = load_document(
        {
            "mcpServers": {
                "a": {"command": "x", "env": {"KEY": "canary-1"}},
                "b": {"url": "https://u:canary-2@host/mcp?k=canary-3", "headers": {"X": "canary-4"}},
            },
            "toolcrib": {"http": {"tokens": [{"token": "canary-5", "subject": "a"}]}},
        }
    )
    assert "canary" not in repr(got)


# Whatever the file holds

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=8), inner, max_size=3)
    ),
    max_leaves=10,
)
_entries = st.fixed_dictionaries(
    {},
    optional={
        "command": st.text(max_size=8) | _values,
        "args": st.lists(st.text(max_size=8), max_size=3) | _values,
        "env": st.dictionaries(st.text(max_size=4), st.text(max_size=8), max_size=2) | _values,
        "cwd": st.text(max_size=8) | _values,
        "type": st.sampled_from(["stdio", "http", "sse", "streamable-http", "x"]) | _values,
        "url": st.text(max_size=8).map("https://host/".__add__) | st.text(max_size=8) | _values,
        "headers": st.dictionaries(st.text(max_size=4), st.text(max_size=8), max_size=2) | _values,
        "disabled": st.booleans() | _values,
    },
)
_sections = st.fixed_dictionaries(
    {},
    optional={
        "cache_dir": st.text(max_size=8) | _values,
        "servers": st.dictionaries(st.sampled_from(["a", "b"]), _values, max_size=2) | _values,
        "policy": st.fixed_dictionaries({}, optional={"allow": st.lists(st.text(max_size=4)), "deny": _values}),
        "limits": st.dictionaries(st.sampled_from(["name_max", "regex_ms", "call_max_s"]), _values),
        "http": st.fixed_dictionaries({"tokens": st.lists(_values, max_size=2)}),
        "skills": _values,
    },
)
_documents = _values | st.fixed_dictionaries(
    {},
    optional={
        "mcpServers": st.dictionaries(st.sampled_from(["a", "b", ""]), _entries | _values, max_size=3) | _values,
        "toolcrib": _sections | _values,
    },
)


def outcome(run: Callable[[], Settings]) -> Settings | tuple[Problem, ...]:
    """Return the settings, or the problems, of which there must be one."""
    try:
        got = run()
    except ConfigError as error:
        return error.problems or pytest.fail("an error without a problem")
    assert isinstance(got, Settings)
    return got


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=2 * settings.default.max_examples,
)
@given(document=_documents)
def test_any_json_is_either_settings_or_problems(document: Any, load_document: Any):
    got = outcome(lambda: load_document(document, A="${B}", B="\udcff"))
    if isinstance(got, tuple):
        "".join(map(str, got)).encode("utf-8")


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=2 * settings.default.max_examples,
)
@given(
    text=st.text(max_size=40) | st.text("{}[]\"':,&*!<>-a1 \n", max_size=40),
    name=st.sampled_from(["a.json", "a.yaml"]),
)
def test_any_text_is_either_settings_or_problems(text: str, name: str, load_text: Any):
    outcome(lambda: load_text(text, name))


# What ships


def test_the_example_config_has_two_servers_and_nothing_to_complain_about(environ: dict[str, str]):
    got = load(REPOSITORY / "docs" / "examples" / "toolcrib.yaml", environ, REPOSITORY)
    assert list(got.servers) == ["time", "git"]
    assert got.notices == got.skipped == ()


def test_the_example_for_clients_starts_toolcrib_with_the_example_config(environ: dict[str, str], tmp_path: Path):
    example = REPOSITORY / "mcp.json.example"
    [entry] = json.loads(example.read_text(encoding="utf-8"))["mcpServers"].values()
    assert entry["command"] == "toolcrib"
    assert (REPOSITORY / entry["args"][-1]).is_file()
    got = load(example, environ, tmp_path)
    assert got.servers == {}
    assert "inside toolcrib" in got.skipped[0].reason


def test_loading_needs_no_parser_but_that_of_json():
    code = (
        "import sys; import toolcrib.config.loading; "
        "print([m for m in ('yaml', 'json5', 'mcp', 'typer', 'platformdirs') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


# Capabilities


def test_files_of_capabilities_are_read_from_beside_the_config(tmp_path: Path, environ: dict[str, str]):
    (tmp_path / "own.txt").write_text("book a desk: book desk\n  a place to sit\n", encoding="utf-8")
    config = write(tmp_path / "toolcrib.json", {"toolcrib": {"tool_search": {"capabilities": ["own.txt"]}}})
    got = load(config, environ, tmp_path / "elsewhere")
    assert got.toolcrib.tool_search.capabilities == (str(tmp_path / "own.txt"),)
    assert got.capabilities == ((str(tmp_path / "own.txt"), "book a desk: book desk\n  a place to sit\n"),)


def test_a_changed_file_of_capabilities_is_another_config(tmp_path: Path, environ: dict[str, str]):
    config = write(tmp_path / "toolcrib.json", {"toolcrib": {"tool_search": {"capabilities": ["own.txt"]}}})
    (tmp_path / "own.txt").write_text("book a desk: book desk\n  a place to sit\n", encoding="utf-8")
    before = load(config, environ, tmp_path)
    assert load(config, environ, tmp_path) == before
    (tmp_path / "own.txt").write_text("book a desk: book desk\n  where can I work\n", encoding="utf-8")
    assert load(config, environ, tmp_path) != before


def test_each_file_of_capabilities_that_cannot_be_used_is_told_with_its_line(tmp_path: Path, environ: dict[str, str]):
    (tmp_path / "bad.txt").write_text("# ours\nbook a desk\n", encoding="utf-8")
    (tmp_path / "latin.txt").write_bytes("höhe".encode("latin-1"))
    names = ["bad.txt", "none.txt", "latin.txt"]
    config = write(tmp_path / "toolcrib.json", {"toolcrib": {"tool_search": {"capabilities": names}}})
    with pytest.raises(ConfigError) as caught:
        load(config, environ, tmp_path)
    place = "toolcrib.tool_search.capabilities"
    reasons = {problem.path: problem.reason for problem in caught.value.problems}
    assert reasons[f"{place}[0]"].startswith(f"{tmp_path / 'bad.txt'}, line 2: an entry begins with")
    assert reasons[f"{place}[1]"] == f"{tmp_path / 'none.txt'} cannot be read: No such file or directory"
    assert reasons[f"{place}[2]"].startswith(f"{tmp_path / 'latin.txt'} ")
