"""Programs over real servers: what a call returns has the type that its tool declares, whatever was in it (R412)."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from e2e.crib import ERAS, JsonObject, connected, crib, write_config
from e2e.npm import Npm, entry
from e2e.test_real_servers import CONVERT, GIT, TIME

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "programs.md"
LOOKS = ["# A title\n", "[1, 2]", "[not a list", '{"a": 1}', "{not json", "{'py': 1}", "(1, 2)", "1", "null", ""]
KINDS = {"string": "str", "array": "list", "object": "dict", "integer": "int", "number": "float", "boolean": "bool"}


def declared(schema: JsonObject | None) -> str:
    """Return the type that an output schema says: of what it wraps, if it only wraps that."""
    if schema is None:
        return "str"
    inner = [
        schema["properties"][name] for name in ("result", "content") if list(schema.get("properties", ())) == [name]
    ]
    return KINDS[(inner or [schema])[0]["type"]]


def calls(folder: Path) -> dict[str, list[tuple[str, JsonObject]]]:
    """Return the calls to make, by server: each tool that tells, and those that read over texts of many looks."""
    files = [folder / f"{number}.txt" for number in range(len(LOOKS))]
    for file, said in zip(files, LOOKS, strict=True):
        file.write_text(said, encoding="utf-8")
    (folder / "a.png").write_bytes(b"\x89PNG")
    repo = {"repo_path": str(folder)}
    graph = {"entities": [{"name": said or "none", "entityType": "look", "observations": [said]} for said in LOOKS]}
    return {
        "time": [("get_current_time", {"timezone": "UTC"}), ("convert_time", CONVERT)],
        "git": [
            *((name, repo) for name in ("git_status", "git_diff_unstaged", "git_diff_staged", "git_log")),
            ("git_show", {**repo, "revision": "HEAD"}),
            ("git_branch", {**repo, "branch_type": "local"}),
        ],
        "filesystem": [
            *(("read_text_file", {"path": str(file)}) for file in files),
            *(("read_file", {"path": str(file)}) for file in files),
            ("read_multiple_files", {"paths": [str(files[1])]}),
            ("read_multiple_files", {"paths": list(map(str, files))}),
            ("read_media_file", {"path": str(folder / "a.png")}),
            ("write_file", {"path": str(folder / "new.txt"), "content": "[1]"}),
            ("list_directory", {"path": str(folder)}),
            ("list_directory_with_sizes", {"path": str(folder)}),
            ("directory_tree", {"path": str(folder)}),
            ("search_files", {"path": str(folder), "pattern": "*.txt"}),
            ("search_files", {"path": str(folder), "pattern": "nothing"}),
            ("get_file_info", {"path": str(files[0])}),
            ("list_allowed_directories", {}),
        ],
        "memory": [
            ("create_entities", graph),
            ("create_relations", {"relations": [{"from": "1", "to": "null", "relationType": "[1]"}]}),
            ("add_observations", {"observations": [{"entityName": "1", "contents": ["{}"]}]}),
            ("read_graph", {}),
            ("search_nodes", {"query": "1"}),
            ("search_nodes", {"query": "nothing at all"}),
            ("open_nodes", {"names": ["1"]}),
            ("delete_entities", {"entityNames": ["1"]}),
        ],
        "everything": [
            *(("echo", {"message": said}) for said in LOOKS),
            ("get-sum", {"a": 1, "b": 2}),
            ("get-env", {}),
            ("get-tiny-image", {}),
            *(("get-structured-content", {"location": place}) for place in ("Chicago", "New York", "Los Angeles")),
            *(
                ("get-annotated-message", {"messageType": kind, "includeImage": kind == "error"})
                for kind in ("error", "debug")
            ),
            ("get-resource-links", {"count": 2}),
            ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
            ("get-resource-reference", {"resourceType": "Blob", "resourceId": 2}),
        ],
    }


@pytest.fixture
def todo(repository: Path) -> str:
    """Add a commit with a TODO, and return its name."""
    (repository / "a.txt").write_text("TODO: all of it", encoding="utf-8")
    who = ["-c", "user.name=ann", "-c", "user.email=ann@example.com"]
    for step in (["add", "a.txt"], [*who, "commit", "-q", "-m", "A file"]):
        subprocess.run(["git", "-C", str(repository), *step], check=True, timeout=30)
    head = ["git", "-C", str(repository), "rev-parse", "HEAD"]
    return subprocess.run(head, check=True, timeout=30, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("era", ERAS)
async def test_the_example_of_the_documentation_runs_as_it_is(tmp_path: Path, repository: Path, todo: str, era: str):
    code = EXAMPLE.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    config = write_config(tmp_path, {"git": entry(GIT)}, programs={"writes": "allow"})
    async with crib("stdio", era, config) as client:
        result = await client.call("tool_run", {"code": code.replace('"."', repr(str(repository)))})
    assert result["content"][0]["text"] == json.dumps([todo])


async def test_the_type_of_each_result_is_the_declared_one(npm: Npm, tmp_path: Path, repository: Path):
    commands = {
        "time": TIME,
        "git": GIT,
        "filesystem": npm.filesystem(repository),
        "memory": npm.memory(),
        "everything": npm.everything(),
    }
    memory = {"env": {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}}
    entries = {name: entry(command, **(memory if name == "memory" else {})) for name, command in commands.items()}
    made = calls(repository)
    expected: dict[str, str] = {}
    for name, command in commands.items():
        async with connected(command, ERAS["legacy"]) as client:
            tools = {tool["name"]: tool for tool in await client.tools()}
        assert tools.keys() >= {tool for tool, _ in made[name]}
        expected |= {f"{name}__{tool}": declared(tools[tool].get("outputSchema")) for tool, _ in made[name]}
    config = write_config(tmp_path, entries, programs={"writes": "allow"})
    async with crib("stdio", "modern", config) as client:
        for name in commands:
            lines = "\n".join(f"    await call({f'{name}__{tool}'!r}, {given!r})," for tool, given in made[name])
            code = f"values = [\n{lines}\n]\n[type(value).__name__ for value in values]"
            result = await client.call("tool_run", {"code": code, "timeout_s": 60})
            assert not result["isError"], result
            types: Any = json.loads(result["content"][0]["text"])
            assert types == [expected[f"{name}__{tool}"] for tool, _ in made[name]], name
    assert set(expected.values()) >= {"str", "dict", "list"}


@pytest.mark.parametrize("era", ERAS)
async def test_what_the_texts_of_a_real_server_hold_is_known_to_the_next_process(
    npm: Npm, tmp_path: Path, repository: Path, era: str
):
    config = write_config(tmp_path, {"filesystem": entry(npm.filesystem(repository))}, programs={"enabled": "auto"})
    (repository / "b.txt").touch()
    (repository / "c").mkdir()
    tree = {"path": str(repository), "excludePatterns": [".git"]}
    code = f"import json\njson.loads(await call('filesystem__directory_tree', {tree!r}))[0]['naem']"
    async with crib("stdio", era, config) as client:
        failed = await client.call("tool_run", {"code": code})
        assert "filesystem__directory_tree a str of JSON {name, type, children?}[]" in failed["content"][0]["text"]
        await client.call("tool_call", {"name": "filesystem__get_file_info", "arguments": {"path": str(repository)}})
    signatures: list[str] = []
    async with crib("stdio", era, config) as client:
        for name in ("filesystem__directory_tree", "filesystem__get_file_info"):
            answer = await client.call("tool_search", {"query": name, "search_type": "exact"})
            signatures.append(answer["structuredContent"]["tools"][0]["signature"])
    assert [each.partition(" -> ")[2] for each in signatures] == ["str: JSON {name, type, …}[]", "str"]


def test_programs_as_a_model_wrote_them_solve_ordinary_tasks(npm: Npm):
    command = [sys.executable, str(ROOT / "benchmarks" / "program_tasks.py"), "--json"]
    environ = os.environ | {"TOOLCRIB_NODE_DIR": str(npm.folder)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    found = shown["findings"][:4]
    assert found[0]["baseline"] > 10, shown
    assert all(each["holds"] for each in found), shown
