"""toolcrib demo, and the two commands that README promises."""

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from jsonschema import Draft202012Validator

from toolcrib.cli import demo, main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def command_between(marker: str) -> str:
    found = re.search(rf"<!-- {marker} -->\n```sh\n(.+)\n```\n<!-- /{marker} -->", README)
    assert found, f"README has one command between the markers {marker}"
    return found[1]


@pytest.mark.slow
def test_the_demo_shows_every_step_and_leaves_nothing_behind(tmp_path: Path):
    command = [sys.executable, "-m", "toolcrib", "demo"]
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert ended.returncode == 0, ended.stderr
    for number in range(1, 8):
        assert f"\n{number}. " in ended.stdout
    own = "tool_search, tool_call, tool_call_read, tool_run, skill_search, skill_get, skill_list"
    assert f"tools/list -> {own}\n" in ended.stdout
    assert f"tools/list -> {own}, git__git_log\n" in ended.stdout
    assert "Message: Add page 12 of the demo's handbook" in ended.stdout
    assert """-> ["Add page 9 of the demo's handbook","Add page 4 of the demo's handbook"]""" in ended.stdout
    program = re.search(r"The 13 calls of the program returned (\S+) tokens, .* it took (\d+) itself", ended.stdout)
    assert program
    assert int(program[1].replace(",", "")) > 10 * int(program[2])
    assert "Nothing runs behind these five." in ended.stdout
    saved = re.search(r"tools listed: (\d+)% saved", ended.stdout)
    assert saved
    assert int(saved[1]) >= 70
    assert '<skill name="pack.core.undo-git-mistakes"' in ended.stdout
    assert "All steps held." in ended.stdout
    drawn = subprocess.run(
        [sys.executable, ROOT / "scripts" / "demo_picture.py", "--check", "-"],
        input=ended.stdout,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (drawn.returncode, drawn.stderr) == (0, "")
    assert ended.stderr == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_where_programs_cannot_run_their_step_is_left_out():
    script = "import sys; from toolcrib.cli import demo; demo.are_installed = lambda: False; sys.exit(demo.main([]))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    left_out = "left out: programs cannot run here; `toolcrib status` says why"
    assert f"\n   {left_out}\n\n6. " in ended.stdout
    assert "calls of the program" not in ended.stdout
    assert f"\n   {demo.WITHOUT_PROGRAMS} tokens with toolcrib, " in ended.stdout


def test_the_lists_of_the_demo_are_of_servers_that_only_list_them():
    folder = Path(demo.__file__).parent
    lists = json.loads((folder / "demo_lists.json").read_text(encoding="utf-8"))
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "any"}},
        {"jsonrpc": "2.0", "id": 4, "method": "prompts/list"},
    ]
    for key, tools in lists.items():
        command = [sys.executable, "-S", folder / "demo_server.py", folder / "demo_lists.json", key]
        said = "".join(f"{json.dumps(request)}\n" for request in requests)
        ended = subprocess.run(command, input=said, capture_output=True, text=True, timeout=30, check=True)
        _, listed, called, refused = map(json.loads, ended.stdout.splitlines())
        definitions = listed["result"]["tools"]
        assert [tool["name"] for tool in definitions] == list(tools)
        for tool in definitions:
            Draft202012Validator.check_schema(tool["inputSchema"])
            assert set(tool["inputSchema"].get("required", ())) <= tool["inputSchema"]["properties"].keys()
        assert called["result"]["isError"] is True
        assert refused["error"]["code"] == -32601


def test_the_demo_takes_no_arguments(capsys: pytest.CaptureFixture[str]):
    assert main(["demo", "--help"]) == 0
    assert main(["demo", "faster"]) == 2
    assert capsys.readouterr().err == "usage: toolcrib demo\n" * 2


def test_without_its_servers_the_demo_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert main(["demo"]) == 1
    assert "pip install 'toolcrib[demo]'" in capsys.readouterr().err


def test_what_the_demo_says_of_real_tools_was_measured():
    page = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert f"{demo.REAL_TOOLS:,} tools of {demo.REAL_SERVERS} captured servers" in page
    assert f"our own six, 41 servers | {demo.WITHOUT_PROGRAMS} tokens | {demo.REAL_LISTED:,} all listed |" in page
    assert f"our own seven, with `tool_run` | {demo.REAL_SHOWN:,} tokens |" in page
    listing = f"{demo.REAL_TOOLS:,} tools of {demo.REAL_SERVERS} real servers costs a model {demo.REAL_LISTED:,} tokens"
    assert (
        f"{listing}; with toolcrib in front, it reads {demo.WITHOUT_PROGRAMS},\nor {demo.REAL_SHOWN:,} where it can run"
        in README
    )


def test_the_picture_of_the_demo_is_on_top_of_readme_and_shows_each_step():
    assert README.index("](docs/demo.svg)") < README.index("## Try it")
    picture = ET.fromstring((ROOT / "docs" / "demo.svg").read_text(encoding="utf-8"))
    texts = [text for text in picture.itertext() if text.strip()]
    for number in range(1, 8):
        assert any(text.startswith(f"{number}. ") for text in texts)
    assert any(f"{demo.REAL_LISTED:,} with all of them listed" in text for text in texts)


def test_readme_shows_how_to_try_and_how_to_test_in_one_line_each():
    assert command_between("demo-command").endswith("/toolcrib demo")
    assert command_between("test-command").endswith("-m pytest -q -n auto")
    for marker in ("demo-command", "test-command"):
        assert command_between(marker).startswith("python3 -m venv .venv && .venv/bin/pip install -q ")
