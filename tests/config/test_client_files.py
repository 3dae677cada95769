"""What other clients have is read for what it means: nothing is lost, nothing allowed that was denied."""

import fnmatch
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from config.client_files import CLIENT_TEXTS, ClientText, Expected
from toolcrib.base.model import Caller
from toolcrib.base.names import public_name
from toolcrib.clients.entries import VariableContext, read_entry
from toolcrib.clients.importing import EntryCheck, changes_of, draft, write_config
from toolcrib.clients.known import UserEnvironment, client_named, client_table
from toolcrib.clients.reading import FoundFile, FoundServer, find_files, project_files, read_file
from toolcrib.config.editing.changes import SetMember
from toolcrib.config.loading import load
from toolcrib.config.schema import PolicySection
from toolcrib.policy.rules import policy_of

Read = Callable[[ClientText], FoundFile]


@pytest.fixture
def user(tmp_path: Path) -> UserEnvironment:
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    return UserEnvironment({"HOME": str(tmp_path / "home")}, tmp_path / "project", "linux")


@pytest.fixture
def read(user: UserEnvironment, tmp_path: Path) -> Read:
    """Write a text where its client has it, and read it as it is found there."""

    def read(case: ClientText) -> FoundFile:
        for name, text in {**case.beside, case.path: case.text}.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(_placed(text, tmp_path), encoding="utf-8")
        client = client_named(case.client)
        if client is None:
            return read_file(tmp_path / case.path, None, user)
        [found] = [each for each in find_files(user, (client,), project=True) if each.file == tmp_path / case.path]
        return found

    return read


def _placed(value: Any, root: Path) -> Any:
    text = json.dumps(value).replace("PROJECT", str(root / "project")).replace("HOME/", f"{root / 'home'}/")
    return json.loads(text)


def _named(case: ClientText) -> str:
    return f"{case.client}: {case.title}"


def test_there_are_at_least_forty_shapes_over_twelve_clients():
    assert len(CLIENT_TEXTS) >= 40
    assert {client.key for client in client_table().clients} <= {case.client for case in CLIENT_TEXTS}
    assert len(client_table().clients) == 12


@pytest.mark.sampled
@pytest.mark.parametrize("case", CLIENT_TEXTS, ids=_named)
def test_each_shape_comes_to_what_it_means(case: ClientText, read: Read, user: UserEnvironment, tmp_path: Path):
    found = read(case)
    assert found.client.key == case.client
    assert [server.name for server in found.servers] == list(case.servers)
    for server in found.servers:
        expected: Expected = case.servers[server.name]
        entry = server.read.entry
        assert expected.lost in server.read.lost if expected.lost else not server.read.lost
        if not expected.lost:
            shown = {"type": entry["type"], **entry} if "url" in entry else entry
            assert shown == _placed(dict(expected.entry), tmp_path)
        assert server.read.options == expected.options
        assert server.read.denials.allowed == expected.allowed
        assert set(server.read.denials.denied) == set(expected.denied)
        assert expected.obstacle in server.read.obstacle
        assert bool(expected.obstacle) == bool(server.read.obstacle)
        for words in expected.said:
            [drafted] = draft([server], {}, EntryCheck(user.environ)).servers
            assert any(words in notice for notice in drafted.notices), drafted.notices
    for words in case.problems:
        assert any(words in str(problem) for problem in found.problems), found.problems
    assert bool(case.problems) == bool(found.problems)


@pytest.mark.sampled
@pytest.mark.parametrize("case", [each for each in CLIENT_TEXTS if each.servers], ids=_named)
def test_each_shape_becomes_a_config_that_can_be_used_and_denies_what_was_denied(
    case: ClientText, read: Read, user: UserEnvironment, tmp_path: Path
):
    drafted = draft(read(case).servers, {}, EntryCheck(user.environ))
    target = tmp_path / "out" / "toolcrib.json"
    target.parent.mkdir()
    target.write_text("{}")
    write_config(target, changes_of(drafted, {}), is_private=False)
    settings = load(target, user.environ, tmp_path)
    policy = policy_of(settings.toolcrib.policy).permissions(Caller("local"))
    for server in drafted.servers:
        denials = server.denials
        for name in ("get", "delete_repo", "x_drop", "push", "rm", "y", *(denials.allowed or ()), *denials.denied):
            may = policy.permits(server.key, name, public_name(server.key, name))
            is_denied = any(fnmatch.fnmatchcase(name, glob) for glob in denials.denied)
            is_allowed = denials.allowed is None or any(fnmatch.fnmatchcase(name, glob) for glob in denials.allowed)
            assert may == (is_allowed and not is_denied), (server.key, name)
    written = json.loads(target.read_text()).get("mcpServers", {})
    lost = {server.name for server in drafted.lost}
    assert lost == {name for name, expected in case.servers.items() if expected.lost}
    assert len(written) == len(case.servers) - len(lost)


def test_files_in_the_working_directory_are_only_named_unless_asked_for(user: UserEnvironment):
    (user.cwd / ".mcp.json").write_text('{"mcpServers": {"evil": {"command": "evil"}}}')
    assert list(find_files(user)) == []
    assert project_files(user) == [user.cwd / ".mcp.json"]
    [found] = find_files(user, project=True)
    assert [server.name for server in found.servers] == ["evil"]


@pytest.mark.parametrize(
    ("platform", "environ", "path"),
    [
        ("darwin", {}, "Library/Application Support/Claude/claude_desktop_config.json"),
        ("win32", {"APPDATA": "ROAMING"}, "ROAMING/Claude/claude_desktop_config.json"),
        ("linux", {"XDG_CONFIG_HOME": "XDG"}, "XDG/Claude/claude_desktop_config.json"),
    ],
)
def test_files_are_looked_for_where_the_platform_has_them(
    platform: str, environ: dict[str, str], path: str, tmp_path: Path
):
    named = {key: str(tmp_path / value) for key, value in environ.items()}
    user = UserEnvironment({"HOME": str(tmp_path), **named}, tmp_path, platform)
    client = client_named("claude-desktop")
    assert client is not None
    assert user.locate(client.files[0]) == tmp_path / path


@pytest.mark.parametrize(
    ("text", "client"),
    [
        ('{"servers": {"a": {"command": "a"}}}', "vscode"),
        ('{"mcp": {"servers": {"a": {"command": "a"}}}}', "vscode"),
        ('{"context_servers": {"a": {"command": "a"}}}', "zed"),
        ('{"mcp": {"a": {"command": ["a"]}}}', "opencode"),
        ("[mcp_servers.a]\ncommand = 'a'\n", "codex"),
        ('{"mcpServers": {"a": {"httpUrl": "https://h"}}}', "gemini-cli"),
        ('{"mcpServers": {"a": {"serverUrl": "https://h"}}}', "windsurf"),
        ('{"mcpServers": {"a": {"command": "a"}}}', "other"),
    ],
)
def test_a_file_anywhere_is_known_by_its_words(text: str, client: str, user: UserEnvironment):
    file = user.cwd / "file"
    file.write_text(text)
    found = read_file(file, None, user)
    assert (found.client.key, [server.name for server in found.servers]) == (client, ["a"])


# -- many clients together -----------------------------------------------------------------------


def _found(user: UserEnvironment, **files: str) -> list[FoundServer]:
    """Return the servers of files of clients, by the keys of the clients with _ for -."""
    for key, text in files.items():
        client = client_named(key.replace("_", "-"))
        assert client is not None
        path = user.locate(client.files[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [server for file in find_files(user) for server in file.servers]


def test_the_same_server_is_taken_over_once_with_the_rules_of_all_its_clients(user: UserEnvironment):
    found = _found(
        user,
        cursor='{"mcpServers": {"git": {"command": "g", "disabled": true}}}',
        gemini_cli="""{"mcpServers": {"g": {"command": "g", "includeTools": ["a", "b"], "excludeTools": ["c"],
        "timeout": 5000}}}""",
        copilot_cli='{"mcpServers": {"git": {"command": "g", "tools": ["b", "d"]}}}',
    )
    [server] = draft(found, {}, EntryCheck({})).servers
    assert (server.key, server.entry) == ("git", {"command": "g"})
    assert (server.denials.allowed, server.denials.denied) == (("b",), ("c",))
    assert server.options == {"call_timeout_s": 5}


def test_other_servers_of_the_same_name_and_other_accounts_keep_apart(user: UserEnvironment):
    entry = '{"mcpServers": {"gh": {"command": "gh", "env": {"TOKEN": "%s"}}}}'
    found = _found(
        user, claude_desktop=entry % "one", cursor=entry % "two", windsurf='{"mcpServers": {"gh": {"command": "x"}}}'
    )
    servers = draft(found, {}, EntryCheck({})).servers
    assert [server.key for server in servers] == ["gh", "gh-cursor", "gh-windsurf"]


def test_secrets_move_to_variables_and_are_told_by_their_places_only(user: UserEnvironment):
    found = _found(
        user,
        cursor="""{"mcpServers": {"gh": {"url": "https://u:canary-1@h/mcp?api_key=canary-2",
        "headers": {"Authorization": "Bearer canary-3"}},
        "db": {"command": "db", "args": ["--token", "canary-4", "-v"],
        "env": {"DB_PASSWORD": "canary-5", "LANG": "C"}}}}""",
    )
    drafted = draft(found, {}, EntryCheck({}), with_variables=True)
    assert drafted.servers[0].entry == {
        "type": "http",
        "url": "https://${GH_KEY_3}:${GH_KEY}@h/mcp?api_key=${GH_KEY_2}",
        "headers": {"Authorization": "Bearer ${GH_TOKEN}"},
    }
    assert drafted.servers[1].entry == {
        "command": "db",
        "args": ["--token", "${DB_SECRET}", "-v"],
        "env": {"DB_PASSWORD": "${DB_PASSWORD}", "LANG": "C"},
    }
    assert {value for value in drafted.variables.values() if value != "u"} == {f"canary-{n}" for n in range(1, 6)}


def test_what_the_config_has_already_is_not_added_again_with_secrets_or_with_variables(user: UserEnvironment):
    found = _found(
        user, cursor='{"mcpServers": {"db": {"command": "db", "env": {"DB_TOKEN": "canary"}, "excludeTools": ["rm"]}}}'
    )
    for with_variables in (False, True):
        first = draft(found, {}, EntryCheck({}), with_variables=with_variables)
        document = {"mcpServers": {"mine": first.servers[0].entry}}
        again = draft(found, document, EntryCheck({}), with_variables=with_variables)
        assert not again.added
        assert [change.path for change in changes_of(again, document)] == [("toolcrib", "policy", "deny")]


@pytest.mark.sampled
@pytest.mark.parametrize("with_variables", [False, True], ids=["written out", "in variables"])
@pytest.mark.parametrize("case", [each for each in CLIENT_TEXTS if each.servers], ids=_named)
def test_no_shape_is_added_a_second_time(case: ClientText, with_variables: bool, read: Read, user: UserEnvironment):
    found = read(case).servers
    first = draft(found, {}, EntryCheck(user.environ), with_variables=with_variables)
    document: dict[str, Any] = {"mcpServers": {server.key: server.entry for server in first.servers}}
    again = draft(found, document, EntryCheck(user.environ), with_variables=with_variables)
    assert [server.key for server in again.added] == []
    assert [server.key for server in again.servers] == [server.key for server in first.servers]


def test_a_limited_server_limits_neither_those_that_are_there_nor_is_widened_by_them(user: UserEnvironment):
    found = _found(user, copilot_cli='{"mcpServers": {"b": {"command": "b", "tools": ["x"]}}}')
    document = {
        "mcpServers": {"a.1": {"command": "a"}, "b2": {"command": "b"}},
        "toolcrib": {"policy": {"allow": ["*"]}},
    }
    drafted = draft(found, document, EntryCheck({}))
    [change] = changes_of(drafted, document)
    assert isinstance(change, SetMember)
    assert change.value == ["a.1.*", "b2.x"]


# -- any rule at all -----------------------------------------------------------------------------

_NAMES = st.text("ab*?[].-_/:( ", min_size=1, max_size=6)


@given(denied=st.lists(_NAMES, max_size=3), allowed=st.none() | st.lists(_NAMES, max_size=3), server=_NAMES)
def test_no_tool_that_was_denied_is_allowed_whatever_it_is_called(
    denied: list[str], allowed: list[str] | None, server: str
):
    assume(server != "other")
    entry: dict[str, Any] = {"command": "x", "excludeTools": denied}
    if allowed is not None:
        entry["includeTools"] = allowed
    found = _entries({server: entry, "other": {"command": "other"}})
    drafted = draft(found, {}, EntryCheck({}))
    first = drafted.servers[0]
    if first.entry.get("disabled"):
        return
    changes = [change for change in changes_of(drafted, {}) if isinstance(change, SetMember)]
    policy = {change.path[-1]: change.value for change in changes if change.path[:2] == ("toolcrib", "policy")}
    permissions = policy_of(PolicySection.model_validate(policy)).permissions(Caller("local"))
    for name in {each.partition("(")[0].strip() for each in denied}:
        assert not permissions.permits(first.key, name, public_name(first.key, name))
    if allowed is not None and "*" not in allowed:
        assert not permissions.permits(first.key, "zz", public_name(first.key, "zz"))


def _entries(entries: dict[str, Any]) -> list[FoundServer]:
    client = client_table().clients[5]
    context = VariableContext(client.syntax, Path("/home"), None)
    return [
        FoundServer(name, client, Path("/f"), ("mcpServers", name), read_entry(name, entry, client, context))
        for name, entry in entries.items()
    ]
