"""What becomes of skills over time: new, edited, moved and removed files, restarts, use, learned ones, and events."""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from shelving import found, instructions, listed, put, repo, skills, user

from fakes.menu import tool
from toolcrib.base.model import Caller
from worlds import BUILTINS, ERAS, PATIENCE_S, JsonObject, MemoryServer, until, world

pytestmark = pytest.mark.anyio

SENT = "Already sent in this session"
COMMON = {"ts", "event", "session", "duration_ms"}


def write_pack(folder: Path, name: str = "brew", **fields) -> Path:
    """Write one skill of a pack, as JSON, and return its file."""
    (folder / "packs").mkdir(exist_ok=True)
    file = folder / "packs" / f"{name}.skill.json"
    file.write_text(json.dumps({"trigger": "Brew some tea.", "steps": ["Boil water."], **fields}), encoding="utf-8")
    return file


def packed(**pack) -> JsonObject:
    """Return a config with the pack that :func:`write_pack` writes."""
    return skills(skill_packs=[{"name": "acme", "path": "packs", **pack}])


def database(folder: Path) -> Path:
    return folder / "cache" / "skills.db"


def planted(folder: Path, *, name: str, trigger: str, scope: str = "project", tenant: str | None = None) -> None:
    """Write a learned skill into the index, as another program would that knows what R103 says and no more."""
    values = {
        "id": f"sk_learned_{name}_{tenant}",
        "name": name,
        "trigger": trigger,
        "steps": '["Remember it."]',
        "origin": "learned",
        "scope_mode": scope,
        "tenant_id": tenant,
    }
    columns = ", ".join(values)
    with closing(sqlite3.connect(database(folder))) as connection:
        marks = ", ".join("?" * len(values))
        connection.execute(f"INSERT INTO skills({columns}) VALUES ({marks})", tuple(values.values()))
        connection.commit()


async def given(client, name: str) -> str:
    return (await client.skill("get", names=[name], force=True))["formatted_context"]


async def noticed(client, *names: str) -> None:
    """Wait until exactly these skills are listed, not for long."""
    with anyio.fail_after(PATIENCE_S):
        while await listed(client) != list(names):
            await anyio.sleep(0.05)


# -- while serving -------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("era", ERAS)
async def test_new_changed_and_removed_skills_are_noticed_while_serving(tmp_path, era):
    put(repo(tmp_path), "tea", "Makes tea.")
    gone = put(repo(tmp_path), "soup", "Cooks soup.")
    async with world(tmp_path, {}, skills(), listing="auto") as w, w.client(era) as client:
        assert await listed(client) == ["soup", "tea"]
        put(repo(tmp_path), "coffee", "Brews coffee.")
        put(repo(tmp_path), "tea", "Makes green tea.")
        shutil.rmtree(gone.parent)

        await noticed(client, "coffee", "tea")
        assert await found(client, "green") == ["tea"]
        assert "Brews coffee." in await given(client, "coffee")


@pytest.mark.sampled
@pytest.mark.parametrize("era", ERAS)
async def test_clients_that_list_resources_are_told_of_other_skills_of_their_own(tmp_path, era):
    put(repo(tmp_path), "tea", "Makes tea.")
    docs = MemoryServer(offers={"resources": [{"uri": "docs://a", "name": "a"}]})
    mine, others = Caller("ann", tenant_id="red"), Caller("bob", tenant_id="blue")
    config = {**skills(scope_mode="tenant"), "context": {"tenant_id": "red"}}
    async with world(tmp_path, {"docs": docs}, config, listing="auto") as w, w.client(era, caller=mine) as client:
        async with client.listening(), w.client(era, caller=others) as other, other.listening():
            assert await listed(client) == ["tea"]
            assert await listed(other) == []
            put(repo(tmp_path), "tea", "Makes tea.", "# Tea\n\nAnother text.\n")
            put(repo(tmp_path), "coffee", "Brews coffee.")
            await noticed(client, "coffee", "tea")
            await until(lambda: client.told("resources/list_changed") == 1)
            assert await listed(other) == []
            assert not other.told("resources/list_changed")
            assert client.told("resources/list_changed") == 1


async def test_where_skills_are_no_resources_nobody_is_told_of_others(tmp_path):
    docs = MemoryServer(offers={"resources": [{"uri": "docs://a", "name": "a"}]})
    async with world(tmp_path, {"docs": docs}, skills(serve_resources=False)) as w, w.client() as client:
        assert await listed(client) == []
        put(repo(tmp_path), "tea", "Makes tea.")
        await noticed(client, "tea")
        assert await listed(client) == ["tea"]
        assert not client.told("resources/list_changed")


async def test_a_folder_of_skills_that_comes_while_serving_is_noticed(tmp_path):
    (tmp_path / "project").mkdir(exist_ok=True)
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        assert await listed(client) == []
        put(repo(tmp_path), "tea", "Makes tea.")
        await noticed(client, "tea")


async def test_a_limit_that_leaves_skills_out_is_told_by_name(tmp_path):
    for number in range(4):
        put(repo(tmp_path), f"tea-{number}")
    async with world(tmp_path, {}, {**skills(), "limits": {"skills_per_root": 2}}) as w, w.client() as client:
        answer = await client.skill("list")
    assert answer["total"] == 2
    assert ["limits.skills_per_root" in error["message"] for error in answer["errors"]] == [True]


async def test_a_limit_that_leaves_files_of_a_skill_out_is_told_by_name(tmp_path):
    for name in ("tea", "secret"):
        put(repo(tmp_path), name)
        for number in range(4):
            (repo(tmp_path) / name / f"{number}.md").write_text("More.", encoding="utf-8")
    limited = {"limits": {"skill_files": 3}}
    async with world(tmp_path, {}, {**skills(disabled_skills=["secret"]), **limited}) as w, w.client() as client:
        answer = await client.skill("list")
        [text] = (await client.call("skill_list", {}))["content"]
        status = (await client.ask("resources/read", {"uri": "toolcrib://status"}))["contents"][0]["text"]
        told = (await client.skill("get", names=["tea"]))["formatted_context"]
    said = "has 5 files; limits.skill_files leaves 2 out"
    # What is said of a hidden skill's folder would tell that it is there.
    assert [(each["path"], each["message"]) for each in answer["errors"]] == [("tea", said)]
    assert f"- repo/tea: {said}" in text["text"]
    assert said in status
    assert "Files (skill_get with file=PATH): 0.md, 1.md (limits.skill_files leaves 2 out)" in told
    limited = {"limits": {"skill_files_max_bytes": 1024}}
    (repo(tmp_path) / "tea" / "3.md").write_text("More." * 200, encoding="utf-8")
    async with world(tmp_path, {}, {**skills(), **limited}) as w, w.client() as client:
        told = (await client.skill("get", names=["tea"], format="raw"))["formatted_context"]
    assert "0.md, 1.md, 2.md (limits.skill_files_max_bytes leaves 1 out)" in told


# -- files that come, change and go --------------------------------------------------------------


async def test_a_skill_whose_file_is_gone_is_gone_after_a_restart(tmp_path):
    file = put(repo(tmp_path), "old")
    put(repo(tmp_path), "new")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        assert await listed(client) == ["new", "old"]
    file.unlink()
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        assert await listed(client) == ["new"]
        assert await found(client, "old", search_type="exact") == []
        assert (await client.skill("get", names=["old"]))["not_found"] == ["old"]


async def test_a_new_and_an_edited_file_are_there_after_a_restart(tmp_path):
    put(repo(tmp_path), "tea", "Makes tea.")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        [before] = (await client.skill("search", query="tea"))["skills"]
    put(repo(tmp_path), "tea", "Makes tea with milk.")
    put(repo(tmp_path), "coffee", "Makes coffee.")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        assert await listed(client) == ["coffee", "tea"]
        [after] = (await client.skill("search", query="milk"))["skills"]
        assert (after["trigger"], after["id"]) == ("Makes tea with milk.", before["id"])


async def test_an_edit_is_given_at_once_and_found_from_then_on(tmp_path):
    put(repo(tmp_path), "tea", "Makes tea.")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        assert "Makes tea." in await given(client, "tea")
        put(repo(tmp_path), "tea", "Makes tea with cinnamon.")
        assert "cinnamon" in await given(client, "tea")
        assert await found(client, "cinnamon") == ["tea"]


async def test_a_folder_that_is_renamed_is_another_skill(tmp_path):
    put(repo(tmp_path), "tea", "Makes tea.")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        [before] = (await client.skill("search", query="tea"))["skills"]
    (repo(tmp_path) / "tea").rename(repo(tmp_path) / "chai")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        [after] = (await client.skill("search", query="tea"))["skills"]
        assert after["id"] != before["id"]
        assert "skill://repo/chai/SKILL.md" in await given(client, "tea")


async def test_a_second_start_writes_nothing(tmp_path):
    put(repo(tmp_path), "tea", "Makes tea.")
    write_pack(tmp_path)
    async with world(tmp_path, {}, packed()) as w, w.client() as client:
        await client.skill("get", names=["tea"])
    file = database(tmp_path)
    before = (file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_ino)
    async with world(tmp_path, {}, packed(), now=60) as w, w.client() as client:
        assert await listed(client) == ["pack.acme.brew", "tea"]
        assert await found(client, "tea")
        assert sum(beside.stat().st_size for beside in file.parent.glob("skills.db-wal")) == 0
    assert (file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_ino) == before


async def test_the_index_is_for_its_owner_only(tmp_path):
    put(repo(tmp_path), "tea", "Makes tea.")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        await listed(client)
        assert database(tmp_path).stat().st_mode & 0o777 == 0o600
        assert database(tmp_path).parent.stat().st_mode & 0o777 == 0o700


# -- copies and namesakes ------------------------------------------------------------------------


async def test_copies_of_a_skill_are_one_skill(tmp_path):
    put(repo(tmp_path), "tea", "Makes tea.")
    put(user(tmp_path), "tea", "Makes tea.")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        answer = await client.skill("list")
        assert [(skill["name"], skill["source"]) for skill in answer["skills"]] == [("tea", "repo")]
        assert answer["total"] == 1
        assert await found(client, "tea") == ["tea"]
        assert "skill://repo/tea/" in await given(client, "tea")
        assert "skill://user/tea/" in await given(client, "user/tea")


async def test_namesakes_that_differ_are_all_kept(tmp_path):
    put(repo(tmp_path), "tea", "Makes tea.")
    put(user(tmp_path), "tea", "Makes green tea.")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        assert sorted(await listed(client)) == ["repo/tea", "user/tea"]
        put(user(tmp_path), "tea", "Makes tea.")
        await client.skill("get", names=["user/tea"])
        assert await listed(client) == ["tea"]


# -- packs ---------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize(("update", "shown"), [(True, "Brew green tea."), (False, "Brew some tea.")])
async def test_an_edited_pack_replaces_its_skills_only_where_the_config_wants_it(tmp_path, update, shown):
    config = packed(update_existing_pack_skills=update)
    write_pack(tmp_path)
    async with world(tmp_path, {}, config) as w, w.client() as client:
        write_pack(tmp_path, trigger="Brew green tea.")
        assert shown in await given(client, "pack.acme.brew")
    for _ in range(2):
        async with world(tmp_path, {}, config) as w, w.client() as client:
            assert shown in await given(client, "pack.acme.brew")
            [loaded] = w.happened("skill_pack_loaded")
            assert loaded["updated_count"] == 0 or update


async def test_a_new_skill_of_a_pack_is_loaded_whatever_the_flag_says(tmp_path):
    config = packed(update_existing_pack_skills=False)
    write_pack(tmp_path)
    async with world(tmp_path, {}, config):
        pass
    write_pack(tmp_path, "bake", trigger="Bake a cake.")
    async with world(tmp_path, {}, config) as w, w.client() as client:
        assert await listed(client) == ["pack.acme.bake", "pack.acme.brew"]


async def test_a_pack_that_leaves_the_config_is_gone(tmp_path):
    write_pack(tmp_path)
    async with world(tmp_path, {}, packed()) as w, w.client() as client:
        assert await listed(client) == ["pack.acme.brew"]
    for config in (packed(enabled=False), skills()):
        async with world(tmp_path, {}, config) as w, w.client() as client:
            assert await listed(client) == []
            assert (await client.skill("get", names=["pack.acme.brew"]))["not_found"] == ["pack.acme.brew"]


# -- learned skills ------------------------------------------------------------------------------


async def test_a_learned_skill_is_found_loaded_and_listed(tmp_path):
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        assert await listed(client) == []
        planted(tmp_path, name="learned.code.tea", trigger="Steep leaves")
        assert await listed(client, origin="learned") == ["learned.code.tea"]
        assert await found(client, "steep a leaf") == ["learned.code.tea"]
        assert await found(client, "leaves", search_type="regex") == ["learned.code.tea"]
        assert "Remember it." in await given(client, "learned.code.tea")
        assert SENT in (await client.skill("get", names=["learned.code.tea"]))["formatted_context"]
        for name in ("learned/learned.code.tea", "$learned.code.tea"):
            assert "Remember it." in await given(client, name)
        assert (await client.ask("skills/list"))["skills"] == []


async def test_a_learned_skill_that_another_program_changes_is_given_as_it_is_now(tmp_path):
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        planted(tmp_path, name="learned.code.tea", trigger="Steep leaves")
        assert "Remember it." in await given(client, "learned.code.tea")
        with closing(sqlite3.connect(database(tmp_path))) as connection:
            connection.execute("""UPDATE skills SET steps = '["Forget it."]' WHERE origin = 'learned'""")
            connection.commit()
        assert "Forget it." in await given(client, "learned.code.tea")


async def test_a_learned_skill_stays_in_its_scope(tmp_path):
    config = {**skills(), "context": {"tenant_id": "red"}}
    async with world(tmp_path, {}, config) as w, w.client() as client:
        planted(tmp_path, name="mine", trigger="Steep leaves", tenant="red")
        planted(tmp_path, name="another", trigger="Steep leaves", tenant="blue")
        planted(tmp_path, name="for-all", trigger="Steep leaves", scope="global")
        assert await listed(client) == ["for-all", "mine"]
        assert sorted(await found(client, "leaves")) == ["for-all", "mine"]


async def test_a_learned_skill_is_never_overwritten_by_a_pack(tmp_path):
    async with world(tmp_path, {}, skills()):
        pass
    planted(tmp_path, name="pack.acme.brew", trigger="Learned the hard way")
    write_pack(tmp_path)
    for _ in range(2):
        async with world(tmp_path, {}, packed()) as w, w.client() as client:
            [skill] = (await client.skill("list"))["skills"]
            assert (skill["origin"], skill["trigger"]) == ("learned", "Learned the hard way")
            [loaded] = w.happened("skill_pack_loaded")
            assert loaded["skill_count"] == 0


async def test_a_pack_that_goes_away_takes_no_learned_skill_with_it(tmp_path):
    write_pack(tmp_path)
    async with world(tmp_path, {}, packed()):
        planted(tmp_path, name="mine", trigger="Steep leaves")
    (tmp_path / "packs" / "brew.skill.json").unlink()
    async with world(tmp_path, {}, packed()) as w, w.client() as client:
        assert await listed(client) == ["mine"]


# -- use -----------------------------------------------------------------------------------------


async def test_what_is_loaded_often_comes_first_in_the_directory_also_after_a_restart(tmp_path):
    for name in ("ant", "bee", "cat"):
        put(repo(tmp_path), name, f"Draws a {name}.")
    config = skills(directory={"selection_strategy": "pinned_then_top"})
    async with world(tmp_path, {}, config) as w:
        async with w.client() as client:
            assert in_directory(client) == ["ant", "bee", "cat"]
            for name in ("cat", "cat", "bee"):
                await given(client, name)
            await found(client, "ant")
        async with w.client() as client:
            assert in_directory(client) == ["cat", "bee", "ant"]
    put(repo(tmp_path), "cat", "Draws a cat with whiskers.")
    async with world(tmp_path, {}, config) as w, w.client() as client:
        assert in_directory(client) == ["cat", "bee", "ant"]


async def test_what_was_loaded_last_comes_first_by_default(tmp_path):
    for name in ("ant", "bee", "cat"):
        put(repo(tmp_path), name, f"Draws a {name}.")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        for name in ("cat", "cat", "bee"):
            w.clock.now += 1
            await given(client, name)
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        assert in_directory(client) == ["bee", "cat", "ant"]


async def test_what_could_not_be_loaded_was_not_used(tmp_path):
    put(repo(tmp_path), "ant", "Draws an ant.")
    put(repo(tmp_path), "bee", "Draws a bee.")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        await client.call("skill_get", {"names": ["bee"], "file": "nothing.md"})
        await client.call("skill_get", {"names": ["nobody"]})
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        assert in_directory(client) == ["ant", "bee"]


def in_directory(client) -> list[str]:
    """Return the names in the directory of skills, in its order."""
    block = client.instructions.partition("<skill_directory>")[2].partition("</skill_directory>")[0]
    return [line.split()[1] for line in block.splitlines() if line.startswith("- ")]


# -- the index -----------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("damage", [os.urandom(20_000), b"not a database", b"SQLite format 3\0" + b"\xff" * 8000])
async def test_a_damaged_index_is_moved_aside_and_made_anew(tmp_path, damage):
    put(repo(tmp_path), "tea", "Makes tea.")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        assert await listed(client) == ["tea"]
    for file in database(tmp_path).parent.glob("skills.db*"):
        file.write_bytes(damage)
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        assert await listed(client) == ["tea"]
        [event] = w.happened("index_rebuilt")
    assert event["file"] == "skills.db"
    assert own(event).keys() == {"file", "reason"}
    assert [file.read_bytes() for file in database(tmp_path).parent.glob("skills.db.corrupt-*")].count(damage) == 1
    async with world(tmp_path, {}, skills()) as w:
        assert w.happened("index_rebuilt") == []


@pytest.mark.parametrize("when", ["while running", "before a start"])
async def test_damage_that_only_a_change_reveals_costs_no_skill(tmp_path, when):
    for name in ("tea", "milk"):
        put(repo(tmp_path), name, f"Makes {name}.")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        assert await listed(client) == ["milk", "tea"]
        with closing(sqlite3.connect(database(tmp_path))) as connection, connection:
            connection.execute("INSERT INTO skills_fts(skills_fts) VALUES ('delete-all')")
        put(repo(tmp_path), "tea", "Makes green tea.")
        if when == "while running":
            [given] = (await client.skill("get", names=["tea"], format="raw"))["skills"]
            assert given["trigger"] == "Makes green tea."
            assert await listed(client) == ["milk", "tea"]
            assert len(w.happened("index_rebuilt")) == 1
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        assert await listed(client) == ["milk", "tea"]
        assert len(w.happened("index_rebuilt")) == (0 if when == "while running" else 1)
    assert list(database(tmp_path).parent.glob("skills.db.corrupt-*Z"))


async def test_an_index_that_is_deleted_is_made_anew_without_a_word(tmp_path):
    put(repo(tmp_path), "tea", "Makes tea.")
    async with world(tmp_path, {}, skills()):
        pass
    database(tmp_path).unlink()
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        assert await listed(client) == ["tea"]
        assert w.happened("index_rebuilt") == []


async def test_where_no_index_can_be_written_skills_are_served_from_memory(tmp_path):
    put(repo(tmp_path), "tea", "Makes tea.")
    (tmp_path / "nowhere").write_text("a file", encoding="utf-8")
    async with world(tmp_path, {}, skills(cache_dir="nowhere/skills")) as w, w.client() as client:
        assert await listed(client) == ["tea"]
        assert await found(client, "tea") == ["tea"]
        [event] = w.happened("index_rebuilt")
        assert "memory" in event["reason"]


# -- events --------------------------------------------------------------------------------------


def own(record: JsonObject) -> JsonObject:
    """Return what is an event's own, without what all have."""
    assert record.keys() >= COMMON
    return {key: value for key, value in record.items() if key not in COMMON}


@pytest.mark.parametrize("era", ERAS)
async def test_each_event_has_exactly_its_keys(tmp_path, era):
    put(repo(tmp_path), "tea", "Makes tea.")
    put(repo(tmp_path), "letters", "Writes letters.")
    write_pack(tmp_path)
    async with world(tmp_path, {}, packed(), listing="auto") as w, w.client(era) as client:
        answer = await client.skill("get", names=["tea", "nobody"], max_tokens=700)
        await client.skill("search", query="letters", limit=1)
        await client.skill("list", task_type="unknown", source="repo", page_size=1)
        await client.skill("list")
        assert "<skill_directory>" in await instructions(client)
        prompt = {"name": "skills_for_task", "arguments": {"task": "write letters"}}
        retrieved = (await client.ask("prompts/get", prompt))["messages"][0]["content"]["text"]

        def happened(event: str) -> list[JsonObject]:
            return [own(record) for record in w.happened(event)]

        pack_loaded = {"pack_name": "acme", "skill_count": 1, "updated_count": 1}
        assert happened("skill_pack_loaded") == [pack_loaded]
        assert {record["count"] for record in happened("skill_directory_rendered")} == {3}
        assert {frozenset(record) for record in happened("skill_directory_rendered")} == {frozenset({"count"})}
        tokens = -(-len(json.dumps(answer["formatted_context"], ensure_ascii=False)[1:-1]) // 4)
        got = {"names": ["tea"], "returned_count": 1, "max_tokens": 700, "final_tokens_est": tokens}
        assert happened("skill_get") == [got]
        assert happened("skill_search_query") == [
            {
                "query": "letters",
                "requested_search_type": "fts",
                "effective_search_type": "fts",
                "results_count": 1,
            }
        ]
        assert happened("skill_list") == [
            {"filters": {"task_type": "unknown", "source": "repo"}, "returned_count": 1},
            {"filters": {}, "returned_count": 3},
        ]
        [record] = happened("skills_retrieved")
        assert record["final_tokens_est"] == -(-len(json.dumps(retrieved, ensure_ascii=False)[1:-1]) // 4)
        assert {**record, "raw_tokens_est": 0, "final_tokens_est": 0} == {
            "skill_count": 1,
            "top_k_used": 3,
            "raw_tokens_est": 0,
            "final_tokens_est": 0,
            "was_summarized": False,
        }
        for event in ("skill_get", "skill_search_query", "skill_list", "skills_retrieved"):
            for record in w.happened(event):
                assert record["session"].startswith("local-")
                assert record["duration_ms"] >= 0


async def test_what_was_refused_is_no_event(tmp_path):
    put(repo(tmp_path), "tea", "Makes tea.")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        before = len(w.events)
        for name, arguments in (
            ("search", {"query": ""}),
            ("get", {"names": []}),
            ("get", {"names": ["tea"], "file": "nothing.md"}),
            ("list", {"cursor": "x"}),
        ):
            assert (await client.call(f"skill_{name}", arguments))["isError"]
        assert w.events[before:] == []


async def test_no_event_tells_a_denied_name_or_somebodys_data(tmp_path):
    put(repo(tmp_path), "db__drop_table", "Drops a table.")
    config = {**skills(), "policy": {"deny": ["drop_table"]}}
    servers = {"db": [tool("read_row", "Read a row."), tool("drop_table", "Drop a table.")]}
    async with world(tmp_path, servers, config) as w, w.client() as client:
        await client.skill("search", query="db__drop_table of bob@corp.net")
        await client.skill("get", names=["db__drop_table", "bob@corp.net"])
        await client.skill("list", source="db__drop_table")
        await client.skill("list", source="bob@corp.net")
        said = json.dumps([record for record in w.events if record["event"].startswith("skill")])
    assert "drop_table" not in said
    assert "bob@corp.net" not in said


# -- off -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_without_skills_everything_is_as_if_there_were_none(tmp_path, era):
    put(repo(tmp_path), "tea", "Makes tea.")
    servers = {"db": [tool("read_row", "Read a row.")]}
    config = {"skills": {"enabled": False}}
    async with world(tmp_path, servers, config, listing="auto") as w, w.client(era) as client:
        assert await client.names() == BUILTINS
        assert "skill" not in await instructions(client)
        assert [each["uri"] for each in (await client.ask("resources/list"))["resources"]] == ["toolcrib://status"]
        assert (await client.ask("prompts/list"))["prompts"] == []
        with pytest.raises(Exception, match="Method not found"):
            await client.ask("skills/list")
        for name in ("skill_search", "skill_get", "skill_list"):
            with pytest.raises(Exception, match=f"Unknown tool: {name}"):
                await client.call(name, {"query": "tea", "names": ["tea"]})
        assert not database(tmp_path).exists()
        assert [record for record in w.events if "skill" in record["event"]] == []


@pytest.mark.parametrize("era", ERAS)
async def test_skills_add_their_tools_to_the_list_and_change_nothing_else_of_it(tmp_path, era):
    servers = {"db": [tool("read_row", "Read a row."), tool("drop_table", "Drop a table.")]}
    config = {"tool_search": {"always_loaded_patterns": ["*read*"]}}
    lists = []
    for section in ({"enabled": False}, {"core_pack": False}):
        async with world(tmp_path, servers, {**config, "skills": section}, listing="auto") as w:
            async with w.client(era) as client:
                lists.append(await client.tools())
    without, with_skills = lists
    assert [entry for entry in with_skills if not entry["name"].startswith("skill_")] == without
    assert [entry["name"] for entry in without] == [*BUILTINS, "db__read_row"]
