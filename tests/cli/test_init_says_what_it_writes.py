"""Every sentence that init and import print is true of the file that they have written, and none is missing (R331)."""

import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from cli.command_line import Run
from config.client_files import CLIENT_TEXTS, ClientText
from config.client_homes import CLIENT_HOMES, Home
from toolcrib.base.model import Caller
from toolcrib.base.names import public_name
from toolcrib.config.env_file import parse_variables
from toolcrib.config.loading import load
from toolcrib.config.settings import Settings
from toolcrib.policy.rules import policy_of

ESCAPED = "${TOOLCRIB_DOLLAR:-$}"


@dataclass
class Written:
    """What a run has written to ``target``, beside what was there ``before``."""

    target: Path
    environ: Mapping[str, str]
    cwd: Path
    before: Mapping[str, Any]

    @cached_property
    def document(self) -> dict[str, Any]:
        return json.loads(self.target.read_text())

    @cached_property
    def settings(self) -> Settings:
        return load(self.target, self.environ, self.cwd)

    @cached_property
    def variables(self) -> dict[str, str]:
        return parse_variables(self.target.with_name("toolcrib.env").read_text())

    def entry(self, key: str) -> dict[str, Any]:
        return self.document["mcpServers"][key]

    def options(self, key: str) -> dict[str, Any]:
        return self.document["toolcrib"]["servers"][key]

    def is_disabled(self, key: str) -> bool:
        return self.entry(key).get("disabled", False)

    def at(self, key: str, place: str) -> str:
        """Return the text at a place such as ``env.TOKEN`` or ``args[2]``."""
        value: Any = self.entry(key)
        first, _, rest = place.partition(".")
        name, _, number = first.partition("[")
        value = value[name]
        return value[int(number[:-1])] if number else value[rest] if rest else value

    def may(self, key: str, tool: str) -> bool:
        permissions = policy_of(self.settings.toolcrib.policy).permissions(Caller("local"))
        return permissions.permits(key, tool, public_name(key, tool))

    def is_private(self, file: Path) -> bool:
        return stat.S_IMODE(file.stat().st_mode) == 0o600


Claim = Callable[..., object]


def _names(text: str) -> list[str]:
    return text.split(", ")


def _tools_are(it: Written, key: str, text: str) -> bool:
    rules = {word: rest for word, _, rest in (part.partition(" ") for part in text.split("; "))}
    only, without = (_names(rules[word]) if word in rules else [] for word in ("only", "without"))
    may_others = not only and text != "no tool" and not any(fnmatchcase("some_other_tool", glob) for glob in without)
    plain = [re.sub(r"\[(.)\]", r"\1", glob).replace("*", "x") for glob in without]
    allowed = [re.sub(r"\[(.)\]", r"\1", glob) for glob in only if glob not in without]
    return (
        not any(it.may(key, tool) for tool in plain)
        and all(it.may(key, tool) for tool in allowed)
        and it.may(key, "some_other_tool") == may_others
    )


def _secrets_are(it: Written, key: str, places: str) -> bool:
    return it.is_private(it.target) and all(
        _shape(it.at(key, place)).strip("… ") or "canary" in it.at(key, place) for place in _names(places)
    )


def _secrets_moved(it: Written, key: str, places: str, file: str, names: str) -> bool:
    texts = [it.at(key, place) for place in _names(places)]
    server = it.settings.servers.get(key)
    return (
        file == str(it.target.with_name("toolcrib.env"))
        and all("canary" not in text and any(f"${{{name}}}" in text for name in _names(names)) for text in texts)
        and all(it.variables[name] for name in _names(names))
        and (it.is_disabled(key) or server is not None or "not set" in it.settings.why_left_out(key))
    )


ABOUT_A_SERVER: dict[str, Claim] = {
    r"already in the config": lambda it, key: it.before[key] == it.entry(key) and not it.is_disabled(key),
    r"already in the config, where it is disabled": lambda it, key: (
        it.before[key] == it.entry(key) and it.is_disabled(key)
    ),
    r"disabled, because it .+": lambda it, key: it.is_disabled(key),
    r"it is disabled there, and here too": lambda it, key: it.is_disabled(key),
    r"it is disabled in .+, but not here, because it is in use in .+": lambda it, key: not it.is_disabled(key),
    r".+ is told never to use it, so it is disabled here too": lambda it, key: (
        it.is_disabled(key) and not it.may(key, "any_tool")
    ),
    r"it is disabled, because .+": lambda it, key: it.is_disabled(key),
    r"it is called (.+) there": lambda it, key, name: key != name,
    r"(\w+) must be set(?: \(.*\))?": lambda it, key, name: f"${{{name}}}" in json.dumps(it.entry(key)),
    r".+ restricts its tools in a way that is not understood \(.+\): see toolcrib\.policy": lambda it, key: (
        it.before[key] == it.entry(key)
    ),
    r"toolcrib does not serve it: (.+)": lambda it, key, why: it.settings.why_left_out(key) in why,
    r"it is left out for now: (.+)": lambda it, key, why: (
        it.is_disabled(key) or it.settings.why_left_out(key).startswith(why)
    ),
    r"a client may leave it out, having less than this shell: (.+)": lambda it, key, why: (
        load(it.target, {"HOME": it.environ["HOME"]}, it.cwd).why_left_out(key).startswith(why)
        and key in it.settings.servers
    ),
    r"there is no program (.+) \(.+\)": lambda it, key, name: not shutil.which(name, path=it.environ["PATH"]),
    r"there is no folder (.+)": lambda it, key, name: not Path(name).is_dir(),
    r"contains arguments too \(.+\)": lambda it, key: " " in it.entry(key)["command"],
    r"has a ~, which is not expanded .+": lambda it, key: any("~" in each for each in it.entry(key)["args"]),
    r"it runs mcp-remote, a bridge to (\S+), which toolcrib can connect to itself: use --direct": lambda it, key, url: (
        "mcp-remote" in it.entry(key)["args"] and url in it.entry(key)["args"]
    ),
    r"its tools: (.+)": _tools_are,
    r"contains secrets in (.+)": _secrets_are,
    r"its secrets in (.+) move to (\S+), as (.+)": _secrets_moved,
    r"nobody is logged in; if it wants that: toolcrib login (\S+)": lambda it, key, name: (
        name == key and (key not in it.settings.servers or it.settings.servers[key].may_log_in)
    ),
    r"the same as (.+) of .+, (.+)": lambda it, key, name, file: (
        name in Path(file).read_text(encoding="utf-8-sig")
        and (name not in it.document["mcpServers"] or it.entry(name) != it.entry(key))
    ),
    r"(.+) is no variable of .+: it is text there, and here too": lambda it, key, text: (
        ESCAPED + (text[1:] if text.startswith("$") else "{")
        in json.dumps(it.entry(key), ensure_ascii=False) + json.dumps(it.document.get("toolcrib"))
    ),
    r"the variables of .+ are in its env now": lambda it, key: it.entry(key)["env"],
    r"it ran in the open folder; here it runs in toolcrib's working directory": lambda it, key: (
        "cwd" not in it.entry(key)
    ),
    r"without mcp-remote, whose logins toolcrib cannot use: run `toolcrib login`": lambda it, key: it.entry(key)["url"],
    r"its address ends in /sse, so the older transport is used \(type: sse\)": lambda it, key: (
        it.entry(key)["type"] == "sse" and it.entry(key)["url"].endswith("/sse")
    ),
    r"its \w+ of (\S+) is read as (seconds|milliseconds)": lambda it, key, number, unit: (
        float(number) * (1 if unit == "seconds" else 0.001) in it.options(key).values()
    ),
    r"toolcrib does not support (.+)": lambda it, key, names: not set(_names(names)) & set(it.entry(key)),
}
"""What is said of a server, after its key, with what makes it true."""

WHY_DISABLED = re.compile(
    r"disabled there|is disabled, because|^disabled, because|never to use it|where it is disabled"
)


def _written_line(it: Written, files: str) -> bool:
    return all(Path(file).is_file() for file in _names(files))


def _are_open_to_logins(it: Written, names: str) -> bool:
    return all(name not in it.settings.servers or it.settings.servers[name].may_log_in for name in _names(names))


ABOUT_ALL: dict[str, Claim] = {
    r"left out: .+ \(.+, (/.+)\): it .+": lambda it, file: Path(file).is_file(),
    r"not read: (/.+), because it is in the working directory; --project imports it too": lambda it, file: (
        Path(file).is_relative_to(it.cwd)
        and "cloned" not in it.document["mcpServers"]
        and "of-the-project" not in it.document["mcpServers"]
    ),
    r"Written: (.+)": _written_line,
    r"It contains secrets, so only you can read it; --env moves them .+": lambda it: it.is_private(it.target),
    r"toolcrib reads (\S+) wherever it is started: the config names it\. Only you can read it\.": lambda it, file: (
        it.is_private(Path(file)) and str(it.settings.env_file.path) == file and "canary" not in it.target.read_text()
    ),
    r"If (.+) wants? a login: `toolcrib login .+`\.": _are_open_to_logins,
    r"Next: `toolcrib config check`, `toolcrib index refresh`, `toolcrib connect CLIENT`\.": lambda it: True,
    r"`toolcrib tokens` says what your tools cost a model, and whether to list all of them at once\.": lambda it: True,
    r"\S+ already has all of them\.": lambda it: it.before == it.document["mcpServers"],
}


def check_all(out: str, it: Written, table: Mapping[str, str]) -> None:
    """Check each line; ``table`` is the text of each server's row after the clients."""
    said: dict[str, list[str]] = {}
    for line in out.splitlines():
        if line.startswith("name ") or any(line.startswith(f"{key} ") and line.endswith(table[key]) for key in table):
            continue
        key = next((key for key in sorted(table, key=len, reverse=True) if line.startswith(f"{key}: ")), None)
        if key is None:
            assert _holds(line, ABOUT_ALL, it), line
        else:
            sentence = re.sub(r"^in [^,]+, ", "", line.removeprefix(f"{key}: "))
            said.setdefault(key, []).append(sentence)
            assert _holds(sentence, ABOUT_A_SERVER, it, key), f"{line}\n{it.target.read_text()}"
    for key in it.document.get("mcpServers", {}):
        if it.is_disabled(key) and key in table:
            assert any(WHY_DISABLED.search(each) for each in said.get(key, [])), f"{key} is disabled without a word"
    for problem in it.settings.skipped:
        key = problem.path.removeprefix("mcpServers.")
        if key in table and key not in it.before and not it.is_disabled(key):
            assert any("left out for now" in each for each in said.get(key, [])), f"{key} is left out without a word"
    for key, target in table.items():
        entry = it.entry(key)
        text = entry.get("url") or " ".join([entry["command"], *entry.get("args", [])])
        assert _shape(text) == _shape(target.removesuffix(" (sse)")), key
        assert target.endswith(" (sse)") == (entry.get("type") == "sse")


def _shape(text: str) -> str:
    """Return a text without quotes of a shell, secrets and variables."""
    plain = text.replace(ESCAPED, "$").replace("'", "").replace('"', "")
    return re.sub(r"\$\{[^}]*\}|canary[^\s&/]*", "…", plain)


def _holds(sentence: str, claims: Mapping[str, Claim], it: Written, *about: str) -> bool:
    """Return whether a sentence is one of those that are known, and true."""
    for pattern, is_true in claims.items():
        if found := re.fullmatch(pattern, sentence):
            return bool(is_true(it, *about, *found.groups()))
    raise AssertionError(f"nothing says what makes this true: {sentence}")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    """Return a folder with an empty home and an empty project, in which nothing of the tester's counts."""
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME", "GITHUB_TOKEN", "API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return tmp_path


def _put(root: Path, files: Mapping[str, str]) -> dict[Path, bytes]:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        placed = text.replace("HOME/", f"{root / 'home'}/").replace("PROJECT", str(root / "project"))
        file.write_text(placed, encoding="utf-8")
    return {root / name: (root / name).read_bytes() for name in files}


def _run_and_check(run: Run, root: Path, cwd: Path, *arguments: str) -> None:
    target = root / "home" / ".config" / "toolcrib" / "toolcrib.json"
    environ = {name: os.environ[name] for name in ("HOME", "PATH", *({"FIGMA_TOKEN"} & set(os.environ)))}
    for _ in range(2):
        before = json.loads(target.read_text()).get("mcpServers", {}) if target.exists() else {}
        _code, planned, _err = run(*arguments, "--json")
        table = {server["key"]: server["target"] for server in json.loads(planned)["servers"]}
        code, out, err = run(*arguments, "--yes")
        assert "canary" not in out + err
        if not table:
            assert code == 1
            return
        assert code == 0, err
        check_all(out, Written(target, environ, cwd, before), table)


HOW = pytest.mark.parametrize("how", [[], ["--env"], ["--direct"]], ids=["plain", "env", "direct"])


@pytest.mark.sampled
@HOW
@pytest.mark.parametrize("home", CLIENT_HOMES, ids=lambda home: home.title)
def test_of_homes_as_people_have_them(
    home: Home, how: list[str], run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FIGMA_TOKEN", "canary-shell")
    before = _put(root, {f"home/{name}": text for name, text in home.files.items()})
    cwd = root / "home" / home.cwd
    monkeypatch.chdir(cwd)
    _run_and_check(run, root, cwd, "init", *how)
    assert {file: file.read_bytes() for file in before} == before, "no client's file is touched"


@pytest.mark.sampled
@pytest.mark.parametrize("how", [[], ["--env"]], ids=["plain", "env"])
@pytest.mark.parametrize("case", CLIENT_TEXTS, ids=lambda case: f"{case.client}: {case.title}")
def test_of_every_shape_of_every_client(
    case: ClientText, how: list[str], run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
):
    _put(root, {**case.beside, case.path: case.text})
    monkeypatch.chdir(root / "project")
    command = ["import", str(root / case.path)] if case.client == "other" else ["init", "--project"]
    if case.client != "other" or case.servers:
        _run_and_check(run, root, root / "project", *command, *how)
