"""Skills as resources: what is listed and read, and what is not there for a caller (R146, R173, R187, C12)."""

import json
import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from mcp import MCPError
from published import DIRECTORY, GET, READ, content, data, entries, everything, is_true, pages, refusal, resources
from rooting import write
from shelving import put, repo, skills, user

from fakes.menu import tool
from toolcrib.base.model import Caller
from toolcrib.skills.catalog import SkillCatalog
from worlds import world

pytestmark = pytest.mark.anyio

ERAS = ("legacy", "auto")
OWN = ["toolcrib://status", "toolcrib://skills", "toolcrib://skills.xml"]
PDF = "skill://repo/pdf-forms/SKILL.md"


async def json_of(client, uri: str) -> Any:
    return json.loads((await content(client, uri))["text"])


# -- what is listed ------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_the_list_begins_with_our_own_and_goes_on_with_the_skills_by_uri(tmp_path, era):
    put(repo(tmp_path), "pdf-forms", "Fills in PDF forms.")
    put(user(tmp_path), "notes", "Takes notes.")
    async with world(tmp_path, {}, skills(), listing="auto") as w, w.client(era) as client:
        listed = (await client.ask("resources/list"))["resources"]
    assert [resource["uri"] for resource in listed] == [*OWN, PDF, "skill://user/notes/SKILL.md"]
    assert all(resource["description"] and resource["name"] for resource in listed)
    assert listed[3] == {
        "uri": PDF,
        "name": "pdf-forms",
        "description": "Fills in PDF forms.",
        "mimeType": "text/markdown",
        "size": listed[3]["size"],
    }


async def test_a_long_list_comes_in_pages_with_each_resource_once(tmp_path):
    names = {f"s{number}{end}" for number in range(40) for end in ("", "-a", "-a-b")}
    for name in names:
        put(repo(tmp_path), name)
    async with world(tmp_path, {}, skills(), listing="auto") as w, w.client() as client:
        listed = await pages(client, "resources/list", "resources")
    assert [len(page) for page in listed] == [53, 50, 20]
    uris = [resource["uri"] for page in listed for resource in page]
    assert uris[3:] == sorted(f"skill://repo/{name}/SKILL.md" for name in names)


@pytest.mark.parametrize("cursor", ["x", "", "bm9uZQ", "W10", "WyJhIiwiYiJd", "é", "A" * 5000])
async def test_a_cursor_that_was_not_given_here_is_refused(tmp_path, cursor):
    put(repo(tmp_path), "pdf-forms")
    async with world(tmp_path, {}, skills(), listing="auto") as w, w.client() as client:
        for method in ("resources/list", "skills/list", DIRECTORY):
            with pytest.raises(MCPError) as caught:
                await client.ask(method, {"uri": "skill://repo/pdf-forms", "cursor": cursor})
            assert (caught.value.code, caught.value.message[:8]) == (-32602, "'cursor'")


async def test_there_are_no_templates(tmp_path):
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        assert (await client.ask("resources/templates/list"))["resourceTemplates"] == []


# -- what is read --------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_every_byte_of_a_file_is_served_as_it_is(tmp_path, era):
    files = {
        "SKILL.md": "\ufeff---\r\nname: odd\r\ndescription: Odd.\r\n---\r\nZero\u200bwidth, no end of line".encode(),
        "references/a b#c?.md": "\u202eü\r\n\n\n".encode(),
        "assets/pixel.png": bytes(range(256)),
        "assets/latin.txt": "é".encode("latin-1"),
        "scripts/run.py": b"print(1)\n",
        "empty.txt": b"",
    }
    for path, written in files.items():
        write(repo(tmp_path) / "odd", path).write_bytes(written)
    async with world(tmp_path, {}, skills(), listing="auto") as w, w.client(era) as client:
        [entry] = (await entries(client)).values()
        assert await is_true(client, entry)
        read = [await data(client, resource["uri"]) for resource in entry["resources"]]
    assert sorted(read) == sorted(files.values())


async def test_a_file_is_text_or_a_blob_and_has_a_type(tmp_path):
    folder = put(repo(tmp_path), "pdf-forms").parent
    for path in ("a.md", "A.MD", "run.py", "plain"):
        write(folder, path)
    write(folder, "pixel.png").write_bytes(b"\x89PNG\0")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        kinds = {}
        for path in ("SKILL.md", "a.md", "A.MD", "run.py", "plain", "pixel.png"):
            found = await content(client, f"skill://repo/pdf-forms/{path}")
            kinds[path] = (found["mimeType"], "blob" in found)
    assert kinds == {
        **dict.fromkeys(("SKILL.md", "a.md", "A.MD"), ("text/markdown", False)),
        "run.py": ("text/x-python", False),
        "plain": ("application/octet-stream", False),
        "pixel.png": ("image/png", True),
    }


# -- what is not there ---------------------------------------------------------------------------

HIDING = {
    "disabled_skills": ["off"],
    "permissions": [{"skill_name": "denied", "action": "deny"}],
}


def put_hidden_ones(tmp_path) -> list[str]:
    """Write a skill that is there, and one for each reason not to be; return the names of the latter."""
    put(repo(tmp_path), "pdf-forms")
    put(repo(tmp_path), "off")
    put(repo(tmp_path), "denied")
    put(repo(tmp_path), "unready", requires=["NOT_SET"])
    put(repo(tmp_path), "human", disable_model_invocation=True)
    put(repo(tmp_path), "private", "Mail jane.roe@corp-mail.com.")
    put(repo(tmp_path), "naming", "Uses drop_table.")
    write(put(repo(tmp_path), "inside").parent, "references/a.md", "Call `drop_table`.")
    return ["off", "denied", "unready", "human", "private", "naming", "inside", "never-was"]


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_hidden_is_refused_as_what_never_was(tmp_path, era):
    hidden = put_hidden_ones(tmp_path)
    config = {**skills(**HIDING), "policy": {"deny": ["drop_table"]}}
    async with world(tmp_path, {"db": [tool("drop_table")]}, config, listing="auto") as w, w.client(era) as client:
        assert await resources(client) == list(await entries(client)) == [PDF]
        refusals = [
            await refusal(client, method, f"skill://repo/{name}{end}")
            for name in hidden
            for method, end in ((READ, "/SKILL.md"), (READ, "/references/a.md"), (GET, "/SKILL.md"), (DIRECTORY, ""))
        ]
    assert all(error == refusals[0] for error in refusals)
    assert refusals[0]["code"] == -32602


async def test_in_a_skill_what_is_no_file_of_it_is_refused_in_the_same_way(tmp_path):
    folder = put(repo(tmp_path), "pdf-forms").parent
    for path in (".env", "references/a.md", "node_modules/x.md"):
        write(folder, path)
    (folder / "link.md").symlink_to(write(tmp_path, "outside.md"))
    base = "skill://repo/pdf-forms"
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        unknown = await refusal(client, READ, "skill://repo/no-skill/SKILL.md")
        for uri in ("", "/", "/none.md", "/references", "/.env", "/node_modules/x.md", "/link.md", "/SKILL.md/", "?a"):
            assert await refusal(client, READ, base + uri) == unknown, uri
        for uri in ("toolcrib://none", "toolcrib://skills/", "file:///etc/passwd", "x", "skill://"):
            assert await refusal(client, READ, uri) == unknown, uri


async def test_each_caller_is_served_the_skills_of_their_own_tenant(tmp_path):
    put(repo(tmp_path), "pdf-forms")
    write(tmp_path, "acme/all.skill.yaml", "name: all\ntrigger: T.\nsteps: [S.]\n")
    packs = [{"name": "acme", "path": "acme", "scope_mode": "global"}]
    config = {**skills(skill_packs=packs, scope_mode="tenant"), "context": {"tenant_id": "red"}}
    async with world(tmp_path, {}, config, listing="auto") as w:
        for tenant, is_there in (("red", True), ("blue", False), (None, False)):
            async with w.client("auto", caller=Caller("someone", tenant)) as client:
                assert (PDF in await resources(client)) == (PDF in await entries(client)) == is_there
                assert "skill://pack/acme/all/SKILL.md" in await entries(client)
                if not is_there:
                    unknown = await refusal(client, READ, "skill://repo/no-skill/SKILL.md")
                    assert await refusal(client, READ, PDF) == unknown == await refusal(client, GET, PDF)


async def test_a_caller_who_may_use_the_tool_is_served_the_skill_that_names_it(tmp_path):
    put(repo(tmp_path), "pdf-forms", "Uses drop_table.")
    visibility = [{"when": {"profile": "guest"}, "deny": ["drop_table"]}]
    config = {**skills(), "policy": {"visibility": visibility}}
    async with world(tmp_path, {"db": [tool("drop_table")]}, config, listing="auto") as w:
        for profile, expected in (("owner", [PDF]), ("guest", []), ("owner", [PDF])):
            async with w.client("auto", caller=Caller("someone", profile=profile)) as client:
                assert await resources(client) == list(await entries(client)) == expected


async def test_files_lose_the_names_also_in_a_moment_in_which_their_skills_row_is_missing(tmp_path, monkeypatch):
    write(put(repo(tmp_path), "pdf-forms", tools=["vault__open"]).parent, "a.md", "Call vault__open.")
    config = {**skills(publish_redacted=True), "policy": {"deny": ["drop_table"]}}
    uri = "skill://repo/pdf-forms/a.md"
    async with world(tmp_path, {"db": [tool("drop_table")]}, config) as w, w.client() as client:
        with monkeypatch.context() as patched:
            patched.setattr(SkillCatalog, "texts", lambda *_: {})
            assert b"vault__open" not in await data(client, uri)
            refused = await client.call("skill_get", {"names": ["pdf-forms"], "file": "a.md"})
            assert refused["isError"]
            assert "vault__open" not in str(refused)
        found = await data(client, uri)
        assert b"Call" in found
        assert b"vault__open" not in found
        given = await client.skill("get", names=["pdf-forms"], file="a.md")
        assert "vault__open" not in str(given)


# -- status and the full catalog -----------------------------------------------------------------


async def test_the_status_counts_and_tells_what_this_session_has_loaded(tmp_path):
    put(repo(tmp_path), "pdf-forms")
    put(repo(tmp_path), "notes")
    write(repo(tmp_path), "broken/SKILL.md", "nothing here")
    async with world(tmp_path, {"db": [tool("get"), tool("put")]}, skills()) as w, w.client() as client:
        await client.call("db__get")
        digest = (await client.skill("get", names=["pdf-forms"], format="raw"))["skills"][0]["digest"]
        status = await json_of(client, "toolcrib://status")
        async with w.client() as other:
            assert (await json_of(other, "toolcrib://status"))["skills"]["loaded"] == []
    assert status["version"]
    assert status["tools"] == {"allowed": 2, "deferred": 2, "activated": ["db__get"]}
    errors = status["skills"].pop("errors")
    assert status["skills"] == {
        "count": 2,
        "sources": {"repo": 2},
        "loaded": [{"name": "pdf-forms", "digest": digest}],
        "active": [{"name": "pdf-forms", "tools": {}}],
        "errors_count": 1,
    }
    assert [error["path"] for error in errors] == ["broken/SKILL.md"]
    assert "frontmatter" in errors[0]["message"]
    assert str(tmp_path) not in json.dumps(status)


@pytest.mark.parametrize("era", ERAS)
async def test_the_full_catalog_names_every_skill_with_its_description_only(tmp_path, era):
    put(repo(tmp_path), "pdf-forms", "Fills in PDF forms.", "MARKER\n")
    put(repo(tmp_path), "hostile", '</skills_catalog>"&<b>')
    put(repo(tmp_path), "off")
    async with world(tmp_path, {}, skills(disabled_skills=["off"]), listing="auto") as w, w.client(era) as client:
        catalog = await json_of(client, "toolcrib://skills")
        xml = await content(client, "toolcrib://skills.xml")
    assert catalog == {
        "skills": [
            {
                "name": name,
                "description": description,
                "uri": f"skill://repo/{name}/SKILL.md",
                "source": "repo",
            }
            for name, description in (("hostile", '</skills_catalog>"&<b>'), ("pdf-forms", "Fills in PDF forms."))
        ],
        "truncated": False,
    }
    assert xml["mimeType"] == "application/xml"
    root = ET.fromstring(xml["text"])
    assert root.find("skills_catalog").get("truncated") == "false"
    told = [{**skill.attrib, "description": skill.text} for skill in root.iter("skill")]
    assert told == catalog["skills"]


@pytest.mark.parametrize(
    ("initial", "most"), [({"max_entries": 10}, 10), ({"max_bytes": 3000}, 30), ({"max_bytes": 500}, 6)]
)
async def test_the_full_catalog_keeps_its_bounds_and_says_what_is_missing(tmp_path, initial, most):
    for number in range(30):
        put(repo(tmp_path), f"skill-{number}", "A description of some length. " * 9)
    async with world(tmp_path, {}, skills(initial=initial)) as w, w.client() as client:
        texts = [(await content(client, f"toolcrib://skills{end}"))["text"] for end in ("", ".xml")]
    assert all(len(text.encode()) <= initial.get("max_bytes", 32768) for text in texts)
    catalog = json.loads(texts[0])
    assert 0 < len(catalog["skills"]) <= most
    assert catalog["truncated"] is (len(catalog["skills"]) < 30)
    assert ("skill_search" in catalog.get("note", "")) is catalog["truncated"]


@pytest.mark.parametrize("end", ["", ".xml"])
async def test_the_pages_of_the_full_catalog_name_every_skill_once(tmp_path, end):
    for number in range(30):
        put(repo(tmp_path), f"skill-{number}", "A description of some length. " * 9)
    seen: list[str] = []
    uri = f"toolcrib://skills{end}"
    async with world(tmp_path, {}, skills(initial={"max_bytes": 3000})) as w, w.client() as client:
        while uri:
            text = (await content(client, uri))["text"]
            assert len(text.encode()) <= 3000
            seen += re.findall(r"skill://repo/(skill-\d+)/", text)
            found = re.search(r"The next are in (\S+?)\.[\"<]", text)
            uri = found[1] if found else ""
        for nowhere in ("toolcrib://skills/30", "toolcrib://skills/x", "toolcrib://skills/-1"):
            assert await refusal(client, READ, uri=nowhere)
    assert sorted(seen) == sorted(f"skill-{number}" for number in range(30))


async def test_the_defaults_hold_two_hundred_skills_in_thirty_two_kibibytes(tmp_path):
    for number in range(210):
        put(repo(tmp_path), f"skill-{number}", "A description of some length. " * 9)
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        text = (await content(client, "toolcrib://skills"))["text"]
    assert len(json.loads(text)["skills"]) == 200
    assert json.loads(text)["truncated"] is True
    assert 16384 < len(text.encode()) <= 32768


# -- what can be switched off --------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_without_resources_the_files_are_not_served_and_the_tools_are(tmp_path, era):
    put(repo(tmp_path), "pdf-forms")
    async with world(tmp_path, {}, skills(serve_resources=False), listing="auto") as w, w.client(era) as client:
        assert [each["uri"] for each in await everything(client, "resources/list", "resources")] == OWN
        assert await refusal(client, READ, PDF) == await refusal(client, READ, "skill://repo/none/SKILL.md")
        assert (await json_of(client, "toolcrib://skills"))["skills"][0]["name"] == "pdf-forms"
        assert (await client.skill("get", names=["pdf-forms"]))["skills"][0]["name"] == "pdf-forms"
        assert not client.server_capabilities.extensions
        for method in ("skills/list", GET, DIRECTORY):
            with pytest.raises(MCPError) as caught:
                await client.ask(method, {"uri": PDF})
            assert caught.value.code == -32601


@pytest.mark.parametrize("era", ERAS)
async def test_without_skills_there_is_the_status_and_nothing_else(tmp_path, era):
    config = {"skills": {"enabled": False}}
    async with world(tmp_path, {"db": [tool("get")]}, config, listing="auto") as w, w.client(era) as client:
        capabilities = client.server_capabilities
        assert capabilities.resources is not None
        assert capabilities.extensions is None
        assert (await client.ask("prompts/list"))["prompts"] == []
        assert [each["uri"] for each in await everything(client, "resources/list", "resources")] == OWN[:1]
        for uri in (PDF, *OWN[1:]):
            assert (await refusal(client, READ, uri))["code"] == -32602
        for method in ("skills/list", GET, DIRECTORY):
            with pytest.raises(MCPError) as caught:
                await client.ask(method, {"uri": PDF})
            assert caught.value.code == -32601
