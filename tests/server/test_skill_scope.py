"""Whose skills a caller gets: their tenant's and project's, and those for everybody; never another's (R145, R228)."""

import json

import pytest
from shelving import PLAIN, found, instructions, listed, put, repo, user

from toolcrib.base.model import Caller
from worlds import ERAS, JsonObject, world

pytestmark = pytest.mark.anyio

RED = {"tenant_id": "red", "project_id": "one"}
SCOPES = ("project", "tenant", "global")


def config(context: JsonObject | None = None, **section) -> JsonObject:
    return {"context": context or {}, "skills": {**PLAIN, **section}}


def packs(folder, *scopes: str) -> list[JsonObject]:
    """Write one pack for each scope, with one skill, and return their configs."""
    for scope in scopes:
        (folder / scope).mkdir(exist_ok=True)
        text = f"---\ntrigger: Paint it in the {scope} colour.\n---\n1. Paint for the {scope}.\n"
        (folder / scope / "paint.skill.md").write_text(text, encoding="utf-8")
    return [{"name": scope, "path": scope, "scope_mode": scope} for scope in scopes]


async def everything_told(client) -> str:
    """Return all answers to one who would like to know what else there is, as one text."""
    said = [await client.call("skill_list"), await client.call("skill_list", {"page_size": 1})]
    for query in ("paint", "pack.project.paint", "colour", "mine"):
        kinds = ("fts", "regex", "exact")
        said += [await client.call("skill_search", {"query": query, "search_type": kind}) for kind in kinds]
    for name in ("mine", "repo/mine", "skill://repo/mine", "pack.project.paint", "pack/project/paint"):
        said.append(await client.call("skill_get", {"names": [name]}))
        said.append(await client.call("skill_get", {"names": [name], "file": "SKILL.md"}))
    said += [await client.ask(method) for method in ("resources/list", "skills/list")]
    for uri in ("toolcrib://status", "toolcrib://skills", "toolcrib://skills.xml"):
        said.append(await client.ask("resources/read", {"uri": uri}))
    prompt = {"name": "skills_for_task", "arguments": {"task": "paint mine"}}
    said.append(await client.ask("prompts/get", prompt))
    return json.dumps([*said, await instructions(client)])


@pytest.mark.parametrize(
    ("caller", "visible"),
    [
        (Caller("a", "red", "one"), SCOPES),
        (Caller("b", "red", "two"), ("tenant", "global")),
        (Caller("c", "red", None), ("tenant", "global")),
        (Caller("d", "blue", "one"), ("global",)),
        (Caller("e", None, "one"), ("global",)),
        (Caller("f", None, None), ("global",)),
        (Caller("g", "RED", "one"), ("global",)),
        (Caller("h", "", ""), ("global",)),
    ],
)
async def test_who_gets_what_of_a_config_with_a_tenant_and_a_project(tmp_path, caller, visible):
    section = config(RED, skill_packs=packs(tmp_path, *SCOPES))
    async with world(tmp_path, {}, section) as w, w.client(caller=caller) as client:
        names = [f"pack.{scope}.paint" for scope in sorted(visible)]
        assert await listed(client) == names
        answer = await client.skill("search", query="paint it")
        assert sorted(hit["name"] for hit in answer["skills"]) == names
        assert answer["count"] == len(names)
        given = await client.skill("get", names=[f"pack.{scope}.paint" for scope in SCOPES])
        assert sorted(skill["name"] for skill in given["skills"]) == names


@pytest.mark.parametrize(
    ("caller", "visible"),
    [
        (Caller("a", None, None), SCOPES),
        (Caller("b", None, "one"), ("tenant", "global")),
        (Caller("c", "red", None), ("global",)),
    ],
)
async def test_nobodys_skills_are_for_those_without_a_tenant_and_a_project(tmp_path, caller, visible):
    section = config(skill_packs=packs(tmp_path, *SCOPES))
    async with world(tmp_path, {}, section) as w, w.client(caller=caller) as client:
        assert await listed(client) == [f"pack.{scope}.paint" for scope in sorted(visible)]


async def test_the_local_caller_is_who_the_config_says(tmp_path):
    put(repo(tmp_path), "mine")
    async with world(tmp_path, {}, config(RED)) as w, w.client() as client:
        assert await listed(client) == ["mine"]


@pytest.mark.parametrize("era", ERAS)
async def test_every_answer_is_the_same_whether_skills_of_others_exist_or_not(tmp_path, era):
    async def told(folder: str, *, has_skills: bool) -> str:
        base = tmp_path / folder
        base.mkdir()
        section = config(RED)
        if has_skills:
            put(repo(base), "mine", "Paints mine in a colour.")
            section = config(RED, skill_packs=packs(base, "project", "tenant"))
        async with world(base, {}, section, listing="auto") as w, w.client(era, caller=Caller("x", "blue")) as client:
            return await everything_told(client)

    assert await told("with", has_skills=True) == await told("none", has_skills=False)


@pytest.mark.parametrize(
    "arguments",
    [
        {"tenant_id": "red", "project_id": "one"},
        {"scope": "project"},
        {"source": "repo"},
        {"origin": "dir"},
        {"_meta": {"tenant_id": "red"}},
        {"context": RED},
    ],
)
async def test_nothing_that_a_model_says_widens_its_scope(tmp_path, arguments):
    put(repo(tmp_path), "mine")
    meta = {"tenant_id": "red", "project_id": "one", "toolcrib/tenant_id": "red"}
    async with world(tmp_path, {}, config(RED)) as w, w.client(caller=Caller("x", "blue", "one")) as client:
        result = await client.call("skill_list", arguments, _meta=meta)
        assert '"mine"' not in json.dumps(result)
        result = await client.call("skill_search", {"query": "mine", **arguments}, _meta=meta)
        assert not (result.get("structuredContent") or {}).get("skills")
        result = await client.call("skill_get", {"names": ["mine"], **arguments}, _meta=meta)
        assert not (result.get("structuredContent") or {}).get("skills")


# -- several toolcribs, one cache ----------------------------------------------------------------


async def test_two_toolcribs_with_one_cache_serve_each_their_own(tmp_path):
    for name in ("red", "blue"):
        (tmp_path / name).mkdir()
        put(repo(tmp_path / name), "mine", f"Paints in {name}.")
        put(repo(tmp_path / name), f"only-{name}", f"Paints in {name} too.")
    shared = str(tmp_path / "cache")
    red = {**config({"tenant_id": "red"}), "cache_dir": shared}
    blue = {**config({"tenant_id": "blue"}), "cache_dir": shared}
    async with world(tmp_path / "red", {}, red) as one, world(tmp_path / "blue", {}, blue) as two:
        async with one.client() as in_red, two.client() as in_blue:
            for client, own, other in ((in_red, "red", "blue"), (in_blue, "blue", "red")):
                assert await listed(client) == ["mine", f"only-{own}"]
                assert await found(client, "paints in") == ["mine", f"only-{own}"]
                assert await found(client, f"only-{other}", search_type="exact") == []
                assert f"only-{other}" not in (client.instructions or "")
                answer = await client.skill("get", names=["mine", f"only-{other}"])
                assert f"Paints in {own}." in answer["formatted_context"]
                assert answer["not_found"] == [f"only-{other}"]


async def test_toolcribs_of_several_projects_read_one_folder_side_by_side(tmp_path):
    put(user(tmp_path), "mine")
    first, second = ({**config({"project_id": name})} for name in ("one", "two"))
    async with world(tmp_path, {}, first) as one, one.client() as client:
        assert await listed(client) == ["mine"]
        await client.skill("get", names=["mine"])
        async with world(tmp_path, {}, second) as two, two.client() as other:
            assert await listed(other) == ["mine"]
            assert await listed(client) == ["mine"]
            [mine] = (await client.skill("search", query="mine"))["skills"]
            [others] = (await other.skill("search", query="mine"))["skills"]
            assert mine["id"] != others["id"]
            answer = await other.skill("get", names=[mine["id"], "mine"])
            assert answer["not_found"] == [mine["id"]]
            assert len(answer["skills"]) == 1


async def test_one_with_another_scope_in_the_same_project_does_not_take_skills_away(tmp_path):
    put(user(tmp_path), "mine")
    async with world(tmp_path, {}, config()) as one, one.client() as client:
        async with world(tmp_path, {}, config(scope_mode="global")) as two, two.client() as other:
            assert (await client.skill("list"))["skills"][0]["scope"] == "project"
            assert (await other.skill("list"))["skills"][0]["scope"] == "global"


async def test_errors_of_files_are_told_in_their_scope_only(tmp_path):
    bare = repo(tmp_path) / "bare" / "SKILL.md"
    bare.parent.mkdir(parents=True)
    bare.write_text("nothing\n", encoding="utf-8")
    async with world(tmp_path, {}, config(RED)) as w:
        async with w.client() as mine, w.client(caller=Caller("x", "blue")) as other:
            assert (await mine.skill("list"))["errors_count"] == 1
            assert (await other.skill("list"))["errors_count"] == 0
