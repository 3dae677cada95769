"""URIs and paths that try to get out of a skill, at every door that takes one: nothing comes, nobody is told why."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from mcp import MCPError
from published import DIRECTORY, GET, READ, content, entries
from rooting import write
from shelving import put, refused, repo, skills

from toolcrib.base.text import one_line, truncate
from worlds import world

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

SECRET = "OUTSIDE"
BASE = "skill://repo/pdf-forms"
ATTACKS_MIN = 300
OWN_FILES = re.compile(r"\. (Its files|Did you mean): (SKILL\.md|scripts/run\.py)(, (SKILL\.md|scripts/run\.py))?")
"""What is told besides: files that the skill has, and nothing else."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a skill full of traps: links out of it, and things that are no files. What lies around it is secret."""
    folder = put(repo(tmp_path), "pdf-forms").parent
    for place in (folder.parent, folder.parent.parent, tmp_path / "project", tmp_path):
        write(place, "secret.txt", SECRET)
    put(repo(tmp_path), "hidden", body=SECRET)
    put(repo(tmp_path), "pdf-forms-2", body=SECRET, disable_model_invocation=True)
    write(folder, "scripts/run.py")
    for path in (".env", ".git/config", "node_modules/a.js", "__pycache__/a.pyc"):
        write(folder, path, SECRET)
    (folder / "sparse").touch()
    os.truncate(folder / "sparse", 10 * 2**30)
    os.mkfifo(folder / "pipe")
    links = {
        "out": tmp_path / "secret.txt",
        "up": "..",
        "root": "/",
        "sibling": "../hidden",
        "zero": "/dev/zero",
        "memory": "/proc/self/environ",
        "dangling": "nowhere",
        "self": "self",
        "alias": "SKILL.md",
        "scripts/out": "../../secret.txt",
        "scripts/back": "..",
    }
    for name, target in links.items():
        (folder / name).symlink_to(target)
    return folder


def paths(folder: Path) -> Iterator[str]:
    """Yield paths, none of which names a file or a folder of the skill."""
    targets = ("secret.txt", "hidden/SKILL.md", "etc/passwd", "SKILL.md", "")
    for up in ("..", "../..", "../" * 8 + "..", "scripts/..", "scripts/../..", "./..", "....", "..;", ".. ", "…", "."):
        yield from (f"{up}{slash}{target}" for slash in ("/", "//", "\\") for target in targets)
    for dots in ("%2e%2e", "%252e%252e", "%c0%ae%c0%ae", "\u2024\u2024", "\uff0e\uff0e", ".\u200b."):
        yield from (f"{dots}{slash}secret.txt" for slash in ("/", "%2f", "%5c", "\u2215", "\uff0f"))
    yield from (str(folder / "SKILL.md"), str(folder.parent / "secret.txt"), "/etc/passwd", "//etc/passwd", "/")
    yield from ("file:///etc/passwd", "~/.ssh/id_rsa", "C:\\Windows\\win.ini", "C:/Windows/win.ini", "\\\\host\\share")
    yield from (f"{name}\0{end}" for name in ("SKILL.md", "../secret.txt", "") for end in ("", ".png", "/x"))
    yield from (f"SKILL.md{odd}" for odd in "\n\r\t\x1b\x7f\x85/\\ .:~")
    yield from ("SKILL.md::$DATA", "SKILL.md:x", "CON", "NUL", "aux.md", "skill.MD ", "SKILL.md/.", "SKILL.md/..")
    yield from ("out", "up", "root", "sibling", "zero", "memory", "dangling", "self", "alias", "scripts/out")
    yield from ("root/etc/passwd", "up/secret.txt", "sibling/SKILL.md", "scripts/back/SKILL.md", "scripts/back/scripts")
    yield from (".env", ".git/config", ".git", "node_modules/a.js", "node_modules", "__pycache__/a.pyc")
    yield from (
        "pipe",
        "pipe/x",
        "sparse",
        "sparse/x",
        "scripts/run.py/x",
        "scripts//run.py",
        "/scripts/run.py",
        "Scripts/run.py",
    )
    yield from ("x" * 300, "x/" * 300 + "x", "a" * 1024, "*", "scripts/*", "?", "[a-z]", "$(id)", "`id`", "{}", "%s%n")


def uris(folder: Path) -> list[str]:
    """Return URIs, none of which is one of a published skill or of what is in it."""
    found = [f"{BASE}/{path}" for path in paths(folder)]
    found += [f"{BASE}/{quote(path)}" for path in paths(folder)]
    found += [f"{BASE}/{quote(path, safe='')}" for path in paths(folder)]
    found += [
        f"{BASE}{end}" for end in ("-2", "-2/SKILL.md", "//", "/?", "#", "?a=b", "/SKILL.md?a", "/SKILL.md#a", "%2f")
    ]
    for start in (
        "skill:///",
        "skill:/",
        "skill:",
        "file://",
        "skills://",
        "//",
        "",
        "http://localhost/",
        "skill://x@",
    ):
        found += [f"{start}{rest}" for rest in ("repo/pdf-forms/SKILL.md", "etc/passwd", "repo/hidden/SKILL.md")]
    for host in (
        "repo:80",
        "u@repo",
        "repo.",
        "REPO",
        "repo%00",
        "rep%6f%2f",
        "..",
        ".",
        "%2e%2e",
        "[::1]",
        "dir/x",
        "*",
    ):
        found += [f"skill://{host}/pdf-forms/SKILL.md", f"skill://{host}/hidden/SKILL.md"]
    found += [
        f"skill://repo/{name}/SKILL.md" for name in ("hidden", "Hidden", "%68idden", "pdf-forms-2", "*", "PDF-forms")
    ]
    return list(dict.fromkeys(found))


def config() -> dict:
    return skills(disabled_skills=["hidden"])


@pytest.mark.parametrize("method", [READ, DIRECTORY, GET])
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_no_uri_leads_out_of_a_skill_and_each_is_refused_as_not_found(tmp_path, folder, method, era):
    attacks = uris(folder)
    assert len(attacks) >= ATTACKS_MIN
    async with world(tmp_path, {}, config(), listing="auto") as w, w.client(era) as client:
        for uri in attacks:
            with pytest.raises(MCPError) as caught:
                await client.ask(method, {"uri": uri})
            error = caught.value.error.model_dump()
            assert error == {"code": -32602, "message": f"Not found: {uri}", "data": {"uri": uri}}, uri
        assert "Open the thing" in (await content(client, f"{BASE}/SKILL.md"))["text"]
        assert SECRET not in "".join(client.heard)


async def test_no_path_leads_out_of_a_skill_that_is_asked_for_a_file(tmp_path, folder):
    meant = {"./SKILL.md", str(folder / "SKILL.md"), *(f"SKILL.md{space}" for space in "\n\r\t\x85 ")}
    attacks = [path for path in dict.fromkeys(paths(folder)) if 0 < len(path) <= 1024 and path not in meant]
    attacks += [quote(path) for path in attacks if quote(path) != path and len(quote(path)) <= 1024]
    assert len(attacks) >= ATTACKS_MIN
    async with world(tmp_path, {}, config()) as w, w.client() as client:
        for path in attacks:
            text = await refused(client, "get", {"names": ["pdf-forms"], "file": path})
            refusal = f"Not found: {truncate(one_line(path), 200)}"
            assert text.startswith(refusal), path
            assert OWN_FILES.fullmatch(text.removeprefix(refusal)), text
        for path in ("", "x" * 1025):
            await refused(client, "get", {"names": ["pdf-forms"], "file": path})
        assert (await client.skill("get", names=["pdf-forms"], file="scripts/run.py"))["formatted_context"]
        assert SECRET not in "".join(client.heard)


async def test_no_name_of_a_skill_is_a_path(tmp_path, folder):
    async with world(tmp_path, {}, config()) as w, w.client() as client:
        attacks = [*paths(folder), *uris(folder)]
        for start in range(0, len(attacks), 10):
            answer = await client.skill("get", names=attacks[start : start + 10], max_tokens=6000)
            assert {each["name"] for each in answer["skills"]} <= {"pdf-forms"}
        assert SECRET not in "".join(client.heard)


async def test_the_manifest_of_a_folder_full_of_traps_names_its_plain_files_only(tmp_path, folder):
    async with world(tmp_path, {}, config()) as w, w.client() as client:
        [entry] = (await entries(client)).values()
        assert entry["resources"] == "dynamic", "a file of 10 GiB"
        (folder / "sparse").unlink()
        [entry] = (await entries(client)).values()
    assert [each["uri"] for each in entry["resources"]] == [f"{BASE}/SKILL.md", f"{BASE}/scripts/run.py"]
