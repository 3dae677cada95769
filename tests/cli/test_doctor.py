"""toolcrib doctor: each thing is looked at, and each finding says what mends it."""

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from models import make_package

from cli.command_line import Run
from fakes.menu import FakeServer, tool
from toolcrib.cli.fixes import Fix, carry_out
from toolcrib.config.loading import load

PROGRAM = str(Path(sys.executable).parent / "toolcrib")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(PROGRAM).parent), "/usr/bin", "/bin"]))
    monkeypatch.setattr("toolcrib.cli.doctor.WITHIN_S", 60.0)  # a busy machine is slow too
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


def _write(tmp_path: Path, servers: dict[str, Any], **toolcrib: Any) -> None:
    file = tmp_path / "etc" / "toolcrib" / "toolcrib.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"mcpServers": servers, "toolcrib": {"skills": {"enabled": False}, **toolcrib}}))


def _connected(home: Path, file: str, *arguments: str, **env: str) -> None:
    """Write an entry that starts toolcrib into a client's file."""
    (home / file).parent.mkdir()
    entry = {"command": PROGRAM, "args": ["serve", *arguments], "env": env}
    (home / file).write_text(json.dumps({"mcpServers": {"toolcrib": entry}}))


def _found(run: Run, *flags: str) -> tuple[int, dict[str, dict[str, Any]]]:
    code, out, err = run("doctor", "--json", *flags)
    assert out, err
    return code, {f"{each['about']}: {each['level']}": each for each in json.loads(out)["findings"]}


@pytest.mark.slow
def test_what_works_is_told_with_its_figures(run: Run, home: Path, tmp_path: Path):
    _write(tmp_path, {"good": FakeServer(tmp_path, "good", tools=["a", "b"]).entry()})
    assert run("connect", "cursor", "--yes")[0] == 0
    code, found = _found(run)
    assert code == 0
    assert "2 tools in " in found["server good: ok"]["text"]
    assert found["server good: ok"]["facts"]["tools"] == 2
    assert found["server good: ok"]["facts"]["at"] == sys.executable
    assert "mcp.json starts; its list grows" in found["client cursor: ok"]["text"]
    assert "full-text search" in found["sqlite: ok"]["text"]
    assert found["index: ok"]["text"].startswith("2 tools of 1 server in ")
    surface = found["surface: ok"]["facts"]
    assert 0 < surface["tokens"] < 2000
    assert surface["always"] == 0
    code, out, _err = run("doctor")
    assert (code, "ok       server good: 2 tools" in out) == (0, True)


def test_a_server_that_fails_and_one_that_hangs_are_told_apart_and_how_to_go_on(
    run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("toolcrib.cli.doctor.WITHIN_S", 5.0)
    bad = {"command": sys.executable, "args": ["-c", "raise SystemExit('no licence')"]}
    _write(tmp_path, {"bad": bad, "slow": FakeServer(tmp_path, "slow", hang_at="list").entry()})
    code, found = _found(run)
    assert code == 1
    assert "no licence" in found["server bad: error"]["text"]
    assert found["server bad: error"]["remedy"] == "toolcrib logs bad; toolcrib disable bad"
    assert found["server slow: warning"]["text"] == "no answer within 5 s"


def test_a_config_that_is_not_there_or_cannot_be_used_is_told(run: Run, home: Path, tmp_path: Path):
    code, found = _found(run)
    assert (code, "toolcrib init" in found["config: error"]["remedy"]) == (1, True)
    _write(tmp_path, {}, gat={})
    code, found = _found(run)
    assert (code, found["config: error"]["remedy"]) == (1, "did you mean gate?")


def test_a_malformed_entry_is_told_with_what_to_write_and_what_leaves_it_out(run: Run, home: Path, tmp_path: Path):
    good = FakeServer(tmp_path, "good", tools=["a"]).entry()
    _write(tmp_path, {"a": good, "a.b": {"command": "x", "args": "-y"}})
    code, found = _found(run)
    wrong = found["config: error"]
    assert (code, wrong["text"]) == (1, "mcpServers.a.b: cannot be used: args must be a list")
    assert wrong["remedy"] == 'write a list of texts: ["--port", "80"]; toolcrib disable a.b'
    assert found["server a: ok"]
    _write(tmp_path, {"a": good, "a ": {"command": "x", "args": "-y"}})
    assert _found(run)[1]["config: error"]["remedy"] == 'write a list of texts: ["--port", "80"]'
    _write(tmp_path, {"a": good, "a.b": {"command": "x", "args": "-y"}})
    run("disable", "a.b")
    assert "config: error" not in _found(run)[1]


@pytest.mark.slow
def test_an_entry_that_does_not_start_is_told_with_the_command_that_mends_it(run: Run, home: Path, tmp_path: Path):
    _write(tmp_path, {"good": FakeServer(tmp_path, "good", tools=["a"]).entry()})
    for name, entry in {
        ".cursor/mcp.json": {"command": str(tmp_path / "gone" / "toolcrib"), "args": ["serve"]},
        ".gemini/settings.json": {"command": PROGRAM, "args": ["serve", "--config", "/nowhere.json"]},
    }.items():
        (home / name).parent.mkdir()
        (home / name).write_text(json.dumps({"mcpServers": {"toolcrib": entry}}))
    code, found = _found(run)
    assert code == 1
    assert "No such file" in found["client cursor: error"]["text"]
    assert found["client cursor: error"]["remedy"] == "toolcrib connect cursor"
    assert "client gemini-cli: error" in found


def test_whether_search_by_meaning_works_is_told(
    run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed_model: None
):
    monkeypatch.syspath_prepend(make_package(tmp_path / "site"))
    _write(tmp_path, {})
    assert _found(run)[1]["semantic: ok"]["text"] == "search by meaning is ready"
    # As long as before, so that only loading shows what it is.
    tokenizer = tmp_path / "site" / "wordllama/tokenizers/l2_supercat_tokenizer_config.json"
    tokenizer.write_bytes(b"0" * tokenizer.stat().st_size)
    broken = _found(run)[1]["semantic: warning"]
    assert broken["text"].startswith("search by meaning is unavailable: The model is broken; reinstall it, or ")
    assert broken["remedy"] == "toolcrib index semantic"
    _write(tmp_path, {}, tool_search={"semantic": {"enabled": False}})
    off = _found(run)[1]["semantic: ok"]
    assert off["text"] == "search by meaning is off: tool_search.semantic.enabled is false"


def test_folders_that_are_missing_are_made_when_asked(run: Run, home: Path, tmp_path: Path):
    _write(tmp_path, {"good": FakeServer(tmp_path, "good", tools=["a"]).entry()}, state_dir=str(tmp_path / "state"))
    code, out, _err = run("doctor", "--json", "--fix", "--yes")
    told = json.loads(out)
    assert {"command": f"mkdir -p {tmp_path / 'state'}", "run": True, "error": ""} in told["fixed"]
    assert (code, told["ok"]) == (0, True), told["findings"]
    assert not [each for each in told["findings"] if each["fixes"]]
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


BROKEN = {"command": sys.executable, "args": ["-c", "raise SystemExit('no licence')"]}


@pytest.fixture
def broken(home: Path, tmp_path: Path) -> Path:
    """Return a client's file whose entry for us is gone, beside a server of its own; a server of ours fails, too."""
    _write(tmp_path, {"bad": BROKEN}, env_file="e")
    (tmp_path / "etc" / "toolcrib" / "e").write_text("A=b")
    (tmp_path / "etc" / "toolcrib" / "e").chmod(0o644)
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    gone = {"command": str(tmp_path / "gone" / "toolcrib"), "args": ["serve"]}
    file.write_text(json.dumps({"mcpServers": {"toolcrib": gone, "mine": {"command": "mine"}}}))
    return file


@pytest.mark.slow
def test_with_yes_all_is_run_that_needs_no_choice_and_what_was_found_then_is_told(
    run: Run, broken: Path, tmp_path: Path
):
    code, out, _err = run("doctor", "--fix", "--yes", "--json")
    told = json.loads(out)
    outcomes = {each["command"]: (each["run"], each["error"]) for each in told["fixed"]}
    secrets = tmp_path / "etc" / "toolcrib" / "e"
    assert outcomes[f"chmod 600 {secrets}"] == (True, "")
    assert outcomes["toolcrib connect cursor"] == (True, "")
    assert outcomes["toolcrib disable bad"] == (False, ""), "which a person may rather mend"
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o600
    servers = json.loads(broken.read_text())["mcpServers"]
    assert (servers["toolcrib"]["command"], servers["mine"]) == (PROGRAM, {"command": "mine"})
    levels = {each["about"]: each["level"] for each in told["findings"]}
    assert (code, levels["client cursor"], levels["server bad"]) == (1, "ok", "error")


@pytest.mark.slow
def test_at_a_terminal_each_is_shown_and_run_after_its_yes(
    run: Run, broken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[str] = []
    answers = {"chmod": "n", "disable": "y"}
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)

    def answer(question: str) -> str:
        asked.append(question)
        return next((said for word, said in answers.items() if word in question), "")

    monkeypatch.setattr("builtins.input", answer)
    before = broken.read_text()
    answers["connect"] = "n"
    _code, out, _err = run("doctor", "--fix")
    assert out.index("toolcrib connect cursor") < out.index("Checked again:"), "all is shown first"
    secrets = tmp_path / "etc" / "toolcrib" / "e"
    assert set(asked) == {
        f"Run `chmod 600 {secrets}`? [Y/n] ",
        "Run `toolcrib disable bad`? [y/N] ",
        "Run `toolcrib connect cursor`? [Y/n] ",
        *(question for question in asked if "mkdir" in question),
    }
    assert (stat.S_IMODE(secrets.stat().st_mode), broken.read_text()) == (0o644, before)
    document = json.loads((tmp_path / "etc" / "toolcrib" / "toolcrib.json").read_text())
    assert document["toolcrib"]["servers"]["bad"] == {"enabled": False}


@pytest.mark.slow
def test_what_only_this_shell_has_a_variable_for_is_told_of_each_client(
    run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ONLY_HERE", "canary-here")
    fake = FakeServer(tmp_path, "good", tools=["a"])
    _write(tmp_path, {"good": fake.entry(env={"T": "${ONLY_HERE}"})})
    config = str(tmp_path / "etc" / "toolcrib" / "toolcrib.json")
    _connected(home, ".cursor/mcp.json", "--config", config)
    _connected(home, ".gemini/settings.json", "--config", config, ONLY_HERE="canary-of-the-entry")
    code, found = _found(run)
    cursor = found["client cursor: warning"]
    assert cursor["text"].endswith(
        "starts, but without the variables of this shell it leaves out good (the variable ONLY_HERE is not set)"
    )
    assert (code, "client gemini-cli: ok" in found) == (0, True)


def test_where_nobody_can_be_asked_nothing_is_run(run: Run, broken: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolcrib.cli.doctor.WITHIN_S", 5.0)
    before = broken.read_text()
    code, out, err = run("doctor", "--fix")
    assert (code, broken.read_text()) == (1, before)
    assert "Nothing was run. Add --yes to run what needs no choice." in err
    assert "Checked again" not in out


def test_a_choice_that_is_left_is_said_to_be_one(run: Run, home: Path, tmp_path: Path):
    _write(tmp_path, {"bad": BROKEN})
    run("doctor", "--fix", "--yes")
    code, _out, err = run("doctor", "--fix", "--yes")
    assert (code, "what is left is a choice, which --yes does not make" in err) == (1, True)


def test_without_a_config_the_servers_of_the_clients_are_imported(run: Run, home: Path, tmp_path: Path):
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    fake = FakeServer(tmp_path, "good", tools=["a"])
    file.write_text(json.dumps({"mcpServers": {"good": fake.entry()}}))
    code, out, err = run("doctor", "--fix", "--yes")
    assert code == 0, err
    assert "Running toolcrib init\n" in out
    assert "server good: 1 tools in" in out.partition("Checked again:")[2]


def test_an_index_that_cannot_be_used_is_put_aside_and_made_anew(run: Run, home: Path, tmp_path: Path):
    _write(tmp_path, {"good": FakeServer(tmp_path, "good", tools=["a"]).entry()})
    cache = load(None, dict(os.environ), Path.cwd()).tool_cache
    (cache / "mine").mkdir(parents=True)
    code, out, _err = run("doctor", "--fix", "--yes", "--json")
    told = json.loads(out)
    assert [each["error"] for each in told["fixed"]] == [""] * len(told["fixed"])
    assert any(f"mv {cache} " in each["command"] for each in told["fixed"])
    assert code == 0
    [aside] = cache.parent.glob(f"{cache.name}.corrupt-*Z")
    assert (aside / "mine").is_dir()


@pytest.mark.parametrize(
    "words",
    [
        ("rm", "x"),
        ("toolcrib", "login", "x"),
        ("toolcrib", "remove", "x"),
        ("toolcrib", "uninstall"),
        ("toolcrib", "disconnect", "cursor"),
        ("toolcrib", "index", "clear"),
        ("chmod", "777", "x"),
    ],
    ids=" ".join,
)
def test_what_logs_in_deletes_or_takes_away_is_never_run(words: tuple[str, ...], run: Run, home: Path):
    [outcome] = carry_out([Fix(words)], None, yes=True, as_json=True)
    assert outcome.error == "it is left to you"


def test_what_replaces_servers_of_a_client_is_never_run(run: Run, home: Path):
    [outcome] = carry_out([Fix(("toolcrib", "connect", "cursor", "--replace"))], None, yes=True, as_json=True)
    assert outcome.error == "it is left to you"


def test_names_that_some_clients_cut_are_told(run: Run, home: Path, tmp_path: Path):
    long = tool("a_tool_with_a_name_that_is_much_longer_than_it_has_to_be", "Long.")
    _write(tmp_path, {"good": FakeServer(tmp_path, "good", tools=[long]).entry()})
    _code, found = _found(run)
    assert "1 names are longer than 49 characters" in found["names: warning"]["text"]
    assert found["names: warning"]["facts"]["names"] == [f"good__{long['name']}"]


def test_what_a_server_said_last_is_told_with_why_it_does_not_work(
    run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("toolcrib.cli.doctor.WITHIN_S", 5.0)
    waits = "import sys, time; print('waiting for the licence server', file=sys.stderr, flush=True); time.sleep(60)"
    _write(tmp_path, {"slow": {"command": sys.executable, "args": ["-c", waits]}})
    _code, found = _found(run)
    slow = found["server slow: warning"]
    assert slow["text"] == "no answer within 5 s; its last output: waiting for the licence server"
    assert slow["facts"]["last_words"] == "waiting for the licence server"


def test_a_program_that_is_not_there_is_told_with_what_helps(run: Run, home: Path, tmp_path: Path):
    _write(tmp_path, {"gone.a": {"command": "no-such-program-here"}})
    code, found = _found(run)
    assert (code, found["config: error"]["text"]) == (
        1,
        "mcpServers.gone.a.command: there is no program no-such-program-here",
    )
    assert found["config: error"]["remedy"] == "install it, or write its full path; toolcrib disable gone.a"
    assert found["server gone.a: error"]["remedy"] == "toolcrib logs gone.a; toolcrib disable gone.a"


def test_a_tool_that_is_left_out_is_told_with_the_reason(run: Run, home: Path, tmp_path: Path):
    broken = {"name": "broken", "inputSchema": 1}
    _write(tmp_path, {"good": FakeServer(tmp_path, "good", tools=["a", broken]).entry()})
    code, found = _found(run)
    assert code == 0
    assert found["server good: warning"]["text"].startswith("its tool broken is left out: ")
    assert found["server good: warning"]["remedy"] == "toolcrib get good"


def test_a_list_that_is_not_whole_is_told_with_the_reason(run: Run, home: Path, tmp_path: Path):
    _write(tmp_path, {"good": FakeServer(tmp_path, "good", tools=["a"], cursor_loop="same").entry()})
    code, found = _found(run)
    assert (code, found["server good: warning"]["text"]) == (0, "it may have more tools: its list repeats itself")


def test_skills_are_counted_and_each_that_is_left_out_is_told_with_what_shows_why(run: Run, home: Path, tmp_path: Path):
    folder = tmp_path / "my skills"
    for name, text in {"forms": "---\nname: forms\ndescription: Fills in forms.\n---\nDo it.\n", "broken": "-"}.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "SKILL.md").write_text(text)
    section = {"core_pack": False, "skill_dirs": [str(folder)], "discover": [], "disabled_skills": ["forms"]}
    _write(tmp_path, {"good": FakeServer(tmp_path, "good", tools=["a"]).entry()}, skills=section)
    _code, out, _err = run("doctor", "--json")
    found = [each for each in json.loads(out)["findings"] if each["about"] == "skills"]
    assert [each["level"] for each in found] == ["ok", "ok", "warning"]
    assert found[0]["text"] == "0 loaded, 1 hidden, 1 left out"
    assert found[1]["text"].endswith(": forms")
    assert found[2]["remedy"] == f"toolcrib skills check '{folder}/broken/SKILL.md'"


@pytest.mark.slow
def test_which_list_and_which_answers_a_client_gets_is_told_by_what_its_entry_says(
    run: Run, home: Path, tmp_path: Path
):
    _write(tmp_path, {"good": FakeServer(tmp_path, "good", tools=["a"]).entry()})
    config = str(tmp_path / "etc" / "toolcrib" / "toolcrib.json")
    _connected(home, ".cursor/mcp.json", "--config", config, "--listing", "stable")
    _connected(home, ".gemini/settings.json", TOOLCRIB_CONFIG=config)
    code, found = _found(run)
    assert code == 0
    cursor, gemini = found["client cursor: ok"], found["client gemini-cli: ok"]
    assert (cursor["facts"]["listing"], cursor["facts"]["structured"]) == ("stable", True)
    assert (gemini["facts"]["listing"], gemini["facts"]["structured"]) == ("stable", False)
    assert "its list is constant (Gemini CLI " in gemini["text"]
    assert "our answers are text alone" in gemini["text"]


def test_what_is_left_of_damaged_files_is_named_and_removed_by_nobody_but_the_person(
    run: Run, home: Path, tmp_path: Path
):
    _write(tmp_path, {"good": FakeServer(tmp_path, "good", tools=["a"]).entry()})
    config = load(None, dict(os.environ), Path.cwd())
    mark = "corrupt-20261122T010203Z"
    damaged = [file.with_name(f"{file.name}.{mark}") for file in (config.tool_cache, config.state_file)]
    for file in damaged:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    code, found = _found(run)
    assert (code, [file.exists() for file in damaged]) == (0, [True, True])
    assert "was damaged and set aside" in found["state: warning"]["text"]
    assert found["index: warning"]["remedy"] == f"rm {damaged[0]}"
    code, _found_then = _found(run, "--fix", "--yes")
    assert (code, [file.exists() for file in damaged]) == (0, [True, True])
