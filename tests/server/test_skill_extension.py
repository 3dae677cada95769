"""The extension for skills (SEP-2640): what is published with which digests, how folders are read (C8, C12, C14)."""

import re
from hashlib import sha256

import pytest
from published import DIRECTORY, GET, READ, content, data, entries, everything, is_true, pages, refusal, resources
from rooting import write
from shelving import put, repo, skills

from fakes.menu import tool
from worlds import MODERN, world

pytestmark = pytest.mark.anyio

ERAS = ("legacy", "auto")
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
EXTENSION = "io.modelcontextprotocol/skills"
PDF = "skill://repo/pdf-forms/SKILL.md"
DENYING = {"policy": {"deny": ["drop_table", "xyzzy"]}}
DB = {"db": [tool("drop_table"), tool("xyzzy"), tool("read_row")]}


def paths(entry) -> list[str]:
    """Return the files of an entry, relative to its folder."""
    folder = entry["uri"].removesuffix("SKILL.md")
    assert all(resource["uri"].startswith(folder) for resource in entry["resources"])
    return [resource["uri"].removeprefix(folder) for resource in entry["resources"]]


async def children(client, uri: str) -> dict[str, str]:
    """Return the names and types of what lies in a folder."""
    found = await everything(client, DIRECTORY, "resources", uri=uri)
    assert all(child["uri"].rpartition("/")[0] == uri for child in found)
    return {child["name"]: child["mimeType"] for child in found}


# -- the eras ------------------------------------------------------------------------------------


async def test_the_extension_is_declared_where_the_protocol_has_extensions(tmp_path):
    put(repo(tmp_path), "pdf-forms")
    async with world(tmp_path, {}, skills(), listing="auto") as w:
        async with w.client("auto") as client:
            assert client.protocol_version == MODERN
            declared = client.server_capabilities
            assert declared.extensions == {EXTENSION: {"directoryRead": True}}
            assert declared.resources is not None
        async with w.client("legacy") as client:
            declared = client.server_capabilities
            assert not declared.extensions
            assert declared.resources is not None


@pytest.mark.parametrize("era", ERAS)
async def test_its_methods_answer_in_both_eras(tmp_path, era):
    write(put(repo(tmp_path), "pdf-forms", license="MIT").parent, "references/a.md")
    async with world(tmp_path, {}, skills(), listing="auto") as w, w.client(era) as client:
        listed = await client.ask("skills/list")
        got = await client.ask(GET, {"uri": PDF})
        read = await client.ask(DIRECTORY, {"uri": "skill://repo/pdf-forms"})
        assert await is_true(client, got["skill"])
    assert listed["skills"] == [got["skill"]]
    assert got["skill"]["frontmatter"] == {"name": "pdf-forms", "description": "Fills in forms.", "license": "MIT"}
    assert paths(got["skill"]) == ["SKILL.md", "references/a.md"]
    assert all((each["ttlMs"], each["cacheScope"]) == (0, "private") for each in (listed, got))
    assert {each.get("resultType") for each in (listed, got, read)} == {"complete" if era == "auto" else None}
    assert read["resources"] == [
        {"uri": PDF, "name": "SKILL.md", "mimeType": "text/markdown", "size": got["skill"]["resources"][0]["size"]},
        {"uri": "skill://repo/pdf-forms/references", "name": "references", "mimeType": "inode/directory"},
    ]


# -- what is listed ------------------------------------------------------------------------------


@pytest.mark.slow
async def test_many_skills_come_in_pages_each_once_and_a_last_page_that_is_full_says_so(tmp_path):
    for name in ("s", "s-a", "s-a-b"):
        for number in range(50):
            put(repo(tmp_path), f"{name}{number}")
    async with world(tmp_path, {}, skills(), listing="auto") as w:
        for era in ERAS:
            async with w.client(era) as client:
                listed = await pages(client, "skills/list", "skills")
                assert await is_true(client, listed[2][-1])
            assert [len(page) for page in listed] == [50, 50, 50]
            uris = [entry["uri"] for page in listed for entry in page]
            assert len(set(uris)) == 150
            assert uris == sorted(uris)


async def test_frontmatter_is_told_as_a_yaml_1_2_parser_reads_it(tmp_path):
    written = (
        "name: odd\ndescription: >-\n  Folded\n  lines.\nreleased: 2026-01-02\nyes: no\ncount: 012\n"
        'ratio: 1.50\nnothing: ~\nflag: True\nlist: [a, "b"]\nmetadata:\n  version: "1.0"\n'
    )
    write(repo(tmp_path), "odd/SKILL.md", f"---\n{written}---\nBody.\n")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        [entry] = (await entries(client)).values()
    assert entry["frontmatter"] == {
        "name": "odd",
        "description": "Folded lines.",
        "released": "2026-01-02",
        "yes": "no",
        "count": 12,
        "ratio": 1.5,
        "nothing": None,
        "flag": True,
        "list": ["a", "b"],
        "metadata": {"version": "1.0"},
    }


LENIENT = {
    "name-differs": "name: other-name\ndescription: D.",
    "Upper": "name: Upper\ndescription: D.",
    "no-name": "description: D.",
    "long": f"name: long\ndescription: {'x' * 1025}",
    "colon": "name: colon\ndescription: Use it: now",
    "twice": "name: twice\ndescription: D.\ndescription: E.",
    "numbers": "name: numbers\ndescription: D.\nmetadata: {version: 1}",
    "infinite": "name: infinite\ndescription: D.\nratio: .inf",
}


async def test_what_breaks_the_format_is_no_skill_of_the_extension_and_can_be_read(tmp_path):
    put(repo(tmp_path), "pdf-forms")
    for folder, fields in LENIENT.items():
        write(repo(tmp_path), f"{folder}/SKILL.md", f"---\n{fields}\n---\nBody.\n")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        assert list(await entries(client)) == [PDF]
        assert await resources(client) == [PDF]
        unknown = await refusal(client, GET, "skill://repo/none/SKILL.md")
        for folder in LENIENT:
            uri = f"skill://repo/{folder}/SKILL.md"
            assert await refusal(client, GET, uri) == unknown
            assert (await data(client, uri)).endswith(b"Body.\n")
            assert await children(client, f"skill://repo/{folder}") == {"SKILL.md": "text/markdown"}


async def test_the_skills_of_packs_are_published_under_names_that_the_format_allows(tmp_path):
    pack = "name: pack.acme.Fill_In Forms\ntrigger: A form is to be filled in.\nsteps: [Open it., Fill it in.]\n"
    write(tmp_path, "acme/forms.skill.yaml", pack)
    packs = [{"name": "acme", "path": "acme"}]
    async with world(tmp_path, {}, skills(core_pack=True, skill_packs=packs), listing="auto") as w:
        async with w.client("auto") as client:
            published = await entries(client)
            for uri, entry in published.items():
                name = entry["frontmatter"]["name"]
                assert NAME.fullmatch(name)
                assert uri.endswith(f"/{name}/SKILL.md")
                assert paths(entry) == ["SKILL.md"]
                assert await is_true(client, entry)
    mine = published["skill://pack/acme/fill-in-forms/SKILL.md"]
    assert mine["frontmatter"]["metadata"] == {"toolcrib-name": "pack.acme.Fill_In Forms"}
    assert sum(uri.startswith("skill://pack/core/") for uri in published) >= 14


# -- files ---------------------------------------------------------------------------------------


async def test_a_skill_with_too_many_files_is_dynamic_and_every_file_can_still_be_found(tmp_path):
    folder = put(repo(tmp_path), "pdf-forms").parent
    for number in range(60):
        write(folder, f"templates/{number}.txt", str(number))
    put(repo(tmp_path), "small")
    async with world(tmp_path, {}, {**skills(), "limits": {"skill_files": 10}}) as w, w.client() as client:
        published = await entries(client)
        assert published[PDF]["resources"] == "dynamic"
        assert (await client.ask(GET, {"uri": PDF}))["skill"]["resources"] == "dynamic"
        assert paths(published["skill://repo/small/SKILL.md"]) == ["SKILL.md"]
        assert PDF in await resources(client)
        assert set(await children(client, "skill://repo/pdf-forms")) == {"SKILL.md", "templates"}
        found = await children(client, "skill://repo/pdf-forms/templates")
        assert found == {f"{number}.txt": "text/plain" for number in range(60)}
        assert [await data(client, f"skill://repo/pdf-forms/templates/{name}") for name in ("0.txt", "59.txt")] == [
            b"0",
            b"59",
        ]


async def test_a_skill_with_too_many_bytes_is_dynamic(tmp_path):
    write(put(repo(tmp_path), "pdf-forms").parent, "big.bin", "x" * 2000)
    async with world(tmp_path, {}, {**skills(), "limits": {"skill_files_max_bytes": 1024}}) as w, w.client() as client:
        assert (await entries(client))[PDF]["resources"] == "dynamic"
        assert set(await children(client, "skill://repo/pdf-forms")) == {"SKILL.md", "big.bin"}


async def test_a_nested_skill_is_one_of_its_own_and_its_files_belong_to_the_outer_one_too(tmp_path):
    outer = put(repo(tmp_path), "outer").parent
    inner = put(outer / "kit", "inner").parent
    write(inner, "a.md")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        published = await entries(client)
        assert [entry["frontmatter"]["name"] for entry in published.values()] == ["outer", "inner"]
        whole, own = published.values()
        assert paths(own) == ["SKILL.md", "a.md"]
        assert paths(whole) == ["SKILL.md", "kit/inner/SKILL.md", "kit/inner/a.md"]
        assert whole["resources"][1:] == own["resources"]
        assert await is_true(client, whole)
        assert await children(client, "skill://repo/outer/kit") == {"inner": "inode/directory"}
        assert set(await children(client, "skill://repo/outer/kit/inner")) == {"SKILL.md", "a.md"}


async def test_a_nested_skill_that_is_hidden_is_no_part_of_the_outer_one(tmp_path):
    outer = put(repo(tmp_path), "outer").parent
    write(outer, "a.md")
    secret = write(put(outer / "kit", "inner").parent, "b.md", "told to nobody")
    hidden = skills(permissions=[{"skill_name": "inner", "action": "deny"}])
    async with world(tmp_path, {}, hidden) as w, w.client() as client:
        [entry] = (await entries(client)).values()
        assert paths(entry) == ["SKILL.md", "a.md"]
        assert set(await children(client, "skill://repo/outer")) == {"SKILL.md", "a.md"}
        unknown = await refusal(client, READ, "skill://repo/outer/none.md")
        for path in ("kit/inner/SKILL.md", "kit/inner/b.md"):
            assert await refusal(client, READ, f"skill://repo/outer/{path}") == unknown
            refused = await client.call("skill_get", {"names": ["outer"], "file": path})
            assert refused["isError"]
            assert secret.read_text() not in str(refused)
        assert (await client.skill("get", names=["outer"], format="raw"))["skills"][0]["files"] == ["SKILL.md", "a.md"]


async def test_a_file_called_skill_md_is_published_under_the_name_that_the_format_has(tmp_path):
    write(repo(tmp_path), "pdf-forms/skill.md", "---\nname: pdf-forms\ndescription: D.\n---\nBody.\n")
    write(repo(tmp_path), "pdf-forms/a.md")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        entry = (await entries(client))[PDF]
        assert sorted(paths(entry)) == ["SKILL.md", "a.md"]
        assert await is_true(client, entry)
        assert set(await children(client, "skill://repo/pdf-forms")) == {"SKILL.md", "a.md"}


async def test_a_large_folder_is_read_in_pages(tmp_path):
    folder = put(repo(tmp_path), "pdf-forms").parent
    names = {f"{number}{end}" for number in range(20) for end in ("", ".md", "-a", "/x", "é")} - {
        str(number) for number in range(20)
    }
    for name in names:
        write(folder, f"t/{name}")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        listed = await pages(client, DIRECTORY, "resources", uri="skill://repo/pdf-forms/t")
        found = [child["name"] for page in listed for child in page]
        files = [child for child in listed[0] if child["mimeType"] != "inode/directory"]
        for child in files[:5]:
            assert (await content(client, child["uri"]))["mimeType"] == child["mimeType"]
    assert [len(page) for page in listed] == [50, 30]
    assert found == sorted(name.removesuffix("/x") for name in names)


async def test_only_folders_of_skills_can_be_read_as_folders(tmp_path):
    write(put(repo(tmp_path), "kit/pdf-forms").parent, "a/b.md")
    base = "skill://repo/kit/pdf-forms"
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        assert await children(client, f"{base}/a") == {"b.md": "text/markdown"}
        unknown = await refusal(client, DIRECTORY, f"{base}/none")
        assert unknown["code"] == -32602
        uris = [f"{base}{end}" for end in ("/", "/a/", "/SKILL.md", "/a/b.md", "/a/..", "//a")]
        for uri in [*uris, "skill://", "skill://repo", "skill://repo/kit", "toolcrib://skills", "file:///"]:
            assert await refusal(client, DIRECTORY, uri) == unknown, uri
        for uri in (f"{base}/a/b.md", base, f"{base}/", "skill://repo/kit/SKILL.md", "toolcrib://status"):
            assert await refusal(client, GET, uri) == unknown, uri


# -- what changes on disk ------------------------------------------------------------------------


async def test_a_file_that_changes_gets_a_new_digest_at_once(tmp_path):
    folder = put(repo(tmp_path), "pdf-forms").parent
    write(folder, "a.md", "one")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        before = (await client.ask(GET, {"uri": PDF}))["skill"]
        write(folder, "a.md", "another")
        put(repo(tmp_path), "pdf-forms", "Fills in other forms.")
        write(folder, "b.md", "new")
        after = (await client.ask(GET, {"uri": PDF}))["skill"]
        assert await is_true(client, after)
        assert (await entries(client))[PDF] == after
        (folder / "b.md").unlink()
        assert paths((await client.ask(GET, {"uri": PDF}))["skill"]) == ["SKILL.md", "a.md"]
    assert paths(after) == ["SKILL.md", "a.md", "b.md"]
    assert after["frontmatter"]["description"] == "Fills in other forms."
    assert all(
        old["digest"] != new["digest"] for old, new in zip(before["resources"], after["resources"], strict=False)
    )


async def test_a_skill_that_stops_being_one_is_published_no_more(tmp_path):
    file = put(repo(tmp_path), "pdf-forms")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        unknown = await refusal(client, GET, "skill://repo/none/SKILL.md")
        for fields in ("name: other\ndescription: D.", "x", f"name: pdf-forms\ndescription: {'x' * 1025}"):
            file.write_text(f"---\n{fields}\n---\n")
            assert await entries(client) == {}
            assert await refusal(client, GET, PDF) == unknown
        put(repo(tmp_path), "pdf-forms")
        assert list(await entries(client)) == [PDF]
        file.unlink()
        assert await entries(client) == {}
        assert await refusal(client, READ, PDF) == unknown


# -- redaction -----------------------------------------------------------------------------------

MAIL = "jane.roe@corp-mail.com"


def put_ones_to_redact(tmp_path) -> list[str]:
    """Write skills with something in them that must not be told, and return their names."""
    put(repo(tmp_path), "mail", f"Mail {MAIL}.")
    write(put(repo(tmp_path), "mail-file").parent, "references/a.md", f"Mail {MAIL}.\r\n")
    put(repo(tmp_path), "mail-field", contact=MAIL)
    put(repo(tmp_path), "named", "Runs drop_table.", "Run `xyzzy`, then xyzzy.")
    write(put(repo(tmp_path), "named-file").parent, "run.py", "drop_table()\n")
    write(
        repo(tmp_path), "allowed/SKILL.md", "---\nname: allowed\ndescription: D.\nallowed-tools: drop_table Read\n---\n"
    )
    put(repo(tmp_path), "allowed-word", allowed_tools="xyzzy Read")
    write(repo(tmp_path), "begins/SKILL.md", "---\nname: begins\ndescription: drop_table it\n---\n")
    return ["allowed", "allowed-word", "begins", "mail", "mail-field", "mail-file", "named", "named-file"]


def put_ones_that_cannot_be_redacted(tmp_path) -> None:
    put(repo(tmp_path), "drop_table")
    put(repo(tmp_path), "kit/drop_table/deeper")
    write(put(repo(tmp_path), "file-name").parent, "drop_table.md")


@pytest.mark.parametrize("redact", [False, True])
async def test_skills_that_redaction_changes_are_left_out_or_served_changed(tmp_path, redact):
    names = put_ones_to_redact(tmp_path)
    put_ones_that_cannot_be_redacted(tmp_path)
    put(repo(tmp_path), "clean", "Reads one read_row.")
    config = {**skills(publish_redacted=redact), **DENYING}
    async with world(tmp_path, DB, config, listing="auto") as w, w.client("auto") as client:
        published = await entries(client)
        assert await resources(client) == list(published)
        expected = sorted(["clean", *(names if redact else [])])
        assert sorted(entry["frontmatter"]["name"] for entry in published.values()) == expected
        assert all([await is_true(client, entry) for entry in published.values()])
        for entry in published.values():
            await everything(client, DIRECTORY, "resources", uri=entry["uri"].removesuffix("/SKILL.md"))
    said = "".join("".join(lines) for lines in w.said)
    assert not [secret for secret in (MAIL, "drop_table", "`xyzzy`") if secret in said]


async def test_what_is_served_redacted_is_otherwise_as_it_was_and_reads_as_what_is_told_of_it(tmp_path):
    put_ones_to_redact(tmp_path)
    config = {**skills(publish_redacted=True), **DENYING}
    async with world(tmp_path, DB, config, listing="auto") as w, w.client("auto") as client:
        told = {entry["frontmatter"]["name"]: entry["frontmatter"] for entry in (await entries(client)).values()}
        assert await data(client, "skill://repo/mail-file/references/a.md") == b"Mail [REDACTED_EMAIL].\r\n"
        assert await data(client, "skill://repo/named-file/run.py") == b"another tool()\n"
        allowed = await data(client, "skill://repo/allowed/SKILL.md")
        named = await data(client, "skill://repo/named/SKILL.md")
    assert b'allowed-tools: "Read"\n' in allowed
    assert named.endswith(b"Run `another tool`, then xyzzy.")
    assert told["allowed"]["allowed-tools"] == told["allowed-word"]["allowed_tools"] == "Read"
    assert told["begins"]["description"] == "another tool it"
    assert told["mail-field"]["contact"] == "REDACTED_EMAIL"


async def test_a_copy_of_a_skill_md_beside_it_is_told_with_the_digest_of_its_own_bytes(tmp_path):
    text = "---\nname: allowed\ndescription: D.\nallowed-tools: drop_table Read\n---\n"
    for name in ("SKILL.md", "COPY.md", "old/COPY.md"):
        write(repo(tmp_path), f"allowed/{name}", text)
    config = {**skills(publish_redacted=True), **DENYING}
    async with world(tmp_path, DB, config, listing="auto") as w, w.client("auto") as client:
        [entry] = (await entries(client)).values()
        assert paths(entry) == ["COPY.md", "SKILL.md", "old/COPY.md"]
        assert await is_true(client, entry)


async def test_without_redaction_of_personal_data_every_byte_is_served(tmp_path):
    names = put_ones_to_redact(tmp_path)
    async with world(tmp_path, DB, skills(redact_pii=False)) as w, w.client() as client:
        published = await entries(client)
        assert len(published) == len(names)
        served = await data(client, "skill://repo/mail-file/references/a.md")
    assert served == f"Mail {MAIL}.\r\n".encode()
    [resource] = [each for each in published["skill://repo/mail-file/SKILL.md"]["resources"] if "a.md" in each["uri"]]
    assert resource["digest"] == f"sha256:{sha256(served).hexdigest()}"
