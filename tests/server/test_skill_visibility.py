"""What hides a skill hides it everywhere: from lists, searches, loads, the directory, resources and prompts (R227)."""

import json

import pytest
from mcp import MCPError
from shelving import found, instructions, listed, put, repo, skills, user

from toolcrib.base.model import Caller
from toolcrib.gateway.composition import open_gateway
from toolcrib.gateway.runtime import Runtime
from toolcrib.policy.sessions import RunActivations, Session
from toolcrib.skills.overviews import Overviews
from worlds import ERAS, MODERN, configured, world

pytestmark = pytest.mark.anyio

SECRET = "Opens the vault with a spanner."
SPELLINGS = ("vault", "$vault", "repo/vault", "skill://repo/vault/SKILL.md", "skill://repo/vault")


@pytest.fixture
def shelf(tmp_path):
    """A folder with two skills: the vault, and one that is always there."""
    put(repo(tmp_path), "vault", SECRET)
    put(repo(tmp_path), "door", "Opens the door with a key.")
    return tmp_path


async def everything_said(client) -> list:
    """Return the answers to everything that may tell of a skill; what was asked for is not in them."""
    said = [await client.call("skill_list", {"page_size": size}) for size in (1, 200)]
    said += [await client.call("skill_list", {"source": "repo", "scope": "project"})]
    said += [await client.call("skill_get", {"names": [f"{plugin}vualt"]}) for plugin in ("", "plugin:")]
    for query in ("opens with a spanner", "val"):
        for kind in ("fts", "regex", "exact"):
            said.append(await client.call("skill_search", {"query": query, "search_type": kind}))
    for method in ("resources/list", "skills/list"):
        said.append(await client.ask(method))
    for uri in ("toolcrib://status", "toolcrib://skills", "toolcrib://skills.xml"):
        said.append(await client.ask("resources/read", {"uri": uri}))
    prompt = {"name": "skills_for_task", "arguments": {"task": "open it with a spanner", "top_k": "10"}}
    return [*said, await client.ask("prompts/get", prompt), await instructions(client)]


async def is_visible(client) -> bool:
    """Return whether the vault is there; it must be so everywhere or nowhere."""
    said = json.dumps(await everything_said(client))
    given = [await client.skill("get", names=[name], force=True) for name in SPELLINGS]
    there = {bool(answer["skills"]) for answer in given} | {"vault" in said, SECRET in said}
    there.add("vault" in await listed(client))
    there.add("vault" in await found(client, "vault", search_type="exact"))
    for method in ("resources/read", "skills/get"):
        there.add(await error_of(client, method, {"uri": SPELLINGS[3]}) != f"Not found: {SPELLINGS[3]}")
    [answer] = there
    return answer


async def error_of(client, method: str, params) -> str | None:
    """Return the error that comes in answer to a request, if one does."""
    try:
        await client.ask(method, params)
    except MCPError as error:
        return str(error)
    return None


# -- each cause ----------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_without_a_cause_a_skill_is_everywhere(shelf, era):
    async with world(shelf, {}, skills(), listing="auto") as w, w.client(era) as client:
        assert await is_visible(client)


RULES = {
    "a disabled name": {"disabled_skills": ["vault"]},
    "a disabled place": {"disabled_skills": ["repo/vault"]},
    "a rule about the skill": {"permissions": [{"skill_name": "vault", "action": "deny"}]},
    "a rule about its place": {"permissions": [{"skill_name": "repo/vault", "action": "deny"}]},
    "a rule of another program": {"permissions": [{"tool": "skill_load", "skill_name": "vault", "action": "deny"}]},
}


@pytest.mark.parametrize(("cause", "era"), [*((cause, "legacy") for cause in RULES), ("a disabled name", MODERN)])
async def test_what_the_config_hides_is_nowhere(shelf, cause, era):
    async with world(shelf, {}, skills(**RULES[cause]), listing="auto") as w, w.client(era) as client:
        assert not await is_visible(client)
        assert await listed(client) == ["door"]


async def test_an_id_can_be_disabled_too(shelf):
    async with world(shelf, {}, skills()) as w, w.client() as client:
        [skill] = (await client.skill("search", query="vault", search_type="exact"))["skills"]
    async with world(shelf, {}, skills(disabled_skills=[skill["id"]])) as w, w.client() as client:
        assert not await is_visible(client)
        assert (await client.skill("get", names=[skill["id"]]))["not_found"] == [skill["id"]]


@pytest.mark.parametrize(
    "section",
    [
        {"disabled_skills": ["val", "vault/", "Vault", "user/vault"]},
        {"permissions": [{"skill_name": "door", "action": "confirm"}]},
        {"permissions": [{"tool": "skill_exec", "skill_name": "vault", "action": "deny"}]},
        {"permissions": [{"skill_name": "VAULT", "action": "deny"}]},
    ],
)
async def test_rules_about_something_else_change_nothing(shelf, section):
    async with world(shelf, {}, skills(**section)) as w, w.client() as client:
        assert await is_visible(client)


async def test_a_rule_without_a_name_is_about_every_skill(shelf):
    async with world(shelf, {}, skills(permissions=[{"action": "deny"}])) as w, w.client() as client:
        assert await listed(client) == []
        assert "<skill_directory>" not in (client.instructions or "")


# -- what a skill says of itself -----------------------------------------------------------------


async def test_a_skill_that_is_for_people_only_is_nowhere(shelf):
    put(repo(shelf), "vault", SECRET, None, **{"disable-model-invocation": True})
    async with world(shelf, {}, skills()) as w, w.client() as client:
        assert not await is_visible(client)


async def test_a_skill_that_needs_a_variable_is_there_once_the_variable_is_set(shelf):
    put(repo(shelf), "vault", SECRET, requires=["VAULT_KEY", "VAULT_ROOM"])
    for environ, is_there in (
        ({}, False),
        ({"VAULT_KEY": "1"}, False),
        ({"VAULT_KEY": "unspoken", "VAULT_ROOM": "2"}, True),
        ({"vault_key": "1", "VAULT_ROOM": "2"}, False),
    ):
        async with world(shelf, {}, skills(), environ=environ) as w, w.client() as client:
            assert await is_visible(client) is is_there, environ
            written = w.settings.skill_cache.parent.glob("*")
            assert not any(b"unspoken" in file.read_bytes() for file in written if file.is_file())


async def test_a_wish_that_is_no_variable_hides_nothing(shelf):
    put(repo(shelf), "vault", SECRET, requires=["python 3", "VAULT_KEY"])
    async with world(shelf, {}, skills()) as w, w.client() as client:
        assert await is_visible(client)


# -- whose folder it is --------------------------------------------------------------------------


async def test_skills_of_a_repository_that_is_not_trusted_are_nowhere(shelf):
    put(user(shelf), "window", "Opens the window.")
    async with world(shelf, {}, skills(trust_project=False)) as w, w.client() as client:
        assert not await is_visible(client)
        assert await listed(client) == ["window"]


@pytest.mark.parametrize(("discover", "names"), [([], []), (["user"], ["window"]), (["repo"], ["door", "vault"])])
async def test_only_the_places_that_the_config_names_are_looked_at(shelf, discover, names):
    put(user(shelf), "window", "Opens the window.")
    async with world(shelf, {}, skills(discover=discover)) as w, w.client() as client:
        assert await listed(client) == names


async def test_the_folders_of_another_client_are_looked_at_only_where_the_config_names_them(shelf):
    put(shelf / "project" / ".claude" / "skills", "cellar")
    put(shelf / "home" / ".claude" / "skills", "attic")
    for skill_dirs, names in ([], ["door", "vault"]), (["preset:claude"], ["attic", "cellar", "door", "vault"]):
        async with world(shelf, {}, skills(skill_dirs=skill_dirs)) as w, w.client() as client:
            assert await listed(client) == names


async def test_a_skill_that_breaks_the_rules_is_left_out_only_where_validation_is_strict(shelf):
    put(repo(shelf), "cellar", "Opens the cellar.").write_text(
        "---\nname: Not The Folder\ndescription: Opens the cellar.\n---\n", encoding="utf-8"
    )
    async with world(shelf, {}, skills()) as w, w.client() as client:
        assert await listed(client) == ["Not The Folder", "door", "vault"]
        assert (await client.skill("list"))["errors_count"] == 0
        assert "cellar" not in json.dumps(await client.ask("skills/list"))
    async with world(shelf, {}, skills(validation="strict")) as w, w.client() as client:
        assert await listed(client) == ["door", "vault"]
        assert (await client.skill("list"))["errors_count"] >= 1


# -- the switch ----------------------------------------------------------------------------------


async def switch(folder, name: str, *, enabled: bool) -> None:
    """Switch a skill as the person at the terminal does, in a program of its own."""
    settings = configured(folder, {}, skills())
    async with open_gateway(settings, Runtime()) as gateway:
        session = Session("cli", Caller(), RunActivations(), growing=False)
        await Overviews(gateway.skills).switch(session, name, enabled=enabled)


async def test_a_skill_that_was_switched_off_is_nowhere_until_it_is_switched_on(shelf):
    async with world(shelf, {}, skills()) as w, w.client() as client:
        assert await is_visible(client)
    await switch(shelf, "vault", enabled=False)
    async with world(shelf, {}, skills()) as w, w.client() as client:
        assert not await is_visible(client)
        assert await listed(client) == ["door"]
    await switch(shelf, "repo/vault", enabled=True)
    async with world(shelf, {}, skills()) as w, w.client() as client:
        assert await is_visible(client)


async def test_a_switch_is_noticed_by_a_toolcrib_that_runs(shelf):
    async with world(shelf, {}, skills()) as w, w.client() as client:
        assert await found(client, "vault") == ["vault"]
        await switch(shelf, "vault", enabled=False)
        assert not await is_visible_by_tools(client)
        await switch(shelf, "vault", enabled=True)
        assert await is_visible_by_tools(client)


async def is_visible_by_tools(client) -> bool:
    """Return whether the tools show the vault: the instructions of a connection stay as they were."""
    there = {"vault" in await listed(client), "vault" in await found(client, "vault")}
    there.add(bool((await client.skill("get", names=["vault"], force=True))["skills"]))
    [answer] = there
    return answer


async def test_a_switch_outlives_the_removal_and_the_return_of_a_skill(shelf):
    async with world(shelf, {}, skills()):
        pass
    await switch(shelf, "vault", enabled=False)
    file = repo(shelf) / "vault" / "SKILL.md"
    text = file.read_text(encoding="utf-8")
    file.unlink()
    async with world(shelf, {}, skills()) as w, w.client() as client:
        assert await listed(client) == ["door"]
    file.write_text(text, encoding="utf-8")
    async with world(shelf, {}, skills()) as w, w.client() as client:
        assert not await is_visible(client)


# -- nothing of it changes an answer -------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_every_answer_is_the_same_whether_a_hidden_skill_exists_or_not(tmp_path, era):
    names = [f"vault-{number}" for number in range(20)]

    async def told(cache: str) -> str:
        config = {**skills(disabled_skills=names), "cache_dir": cache}
        async with world(tmp_path, {}, config, listing="auto") as w, w.client(era) as client:
            given = [await client.call("skill_get", {"names": [name]}) for name in ("vault-1", "repo/vault-1")]
            return json.dumps([*await everything_said(client), *given])

    put(repo(tmp_path), "door", "Opens the door with a spanner.")
    before = await told("one")
    for name in names:
        put(repo(tmp_path), name, SECRET)
    assert await told("two") == before


async def test_a_copy_that_is_hidden_does_not_take_the_visible_one_with_it(shelf):
    put(user(shelf), "vault", SECRET)
    async with world(shelf, {}, skills(disabled_skills=["repo/vault"])) as w, w.client() as client:
        answer = await client.skill("get", names=["vault"])
        assert "skill://user/vault/" in answer["formatted_context"]
        assert "ambiguous" not in answer
