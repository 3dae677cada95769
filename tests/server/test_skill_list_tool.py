"""``skill_list`` as a client sees it: pages, filters, and the files that could not be loaded (R137, R168, C26)."""

import pytest
from shelving import listed, put, refused, repo, skills, user

from worlds import ERAS, world

pytestmark = pytest.mark.anyio


@pytest.fixture
def shelf(tmp_path):
    """A folder with 25 skills, two of which share a name."""
    for number in range(20):
        put(
            repo(tmp_path),
            f"skill-{number:02}",
            f"Does thing {number}.",
            task_type="code" if number % 5 == 0 else "api",
        )
    for number in range(19, 23):
        put(user(tmp_path), f"skill-{number:02}", f"Does another thing {number}.")
    pack = tmp_path / "packs" / "acme"
    pack.mkdir(parents=True)
    (pack / "brew.skill.md").write_text("---\ntrigger: Brew tea.\ntask_type: domain\n---\n1. Boil.\n", encoding="utf-8")
    return tmp_path


PACK = {"name": "acme", "path": "packs/acme", "scope_mode": "global"}


async def pages(client, **arguments) -> list[list[str]]:
    """Return the names of every page, by following the cursors."""
    found = [await client.skill("list", **arguments)]
    while "next_cursor" in found[-1]:
        assert found[-1]["truncated"] is True
        found.append(await client.skill("list", cursor=found[-1]["next_cursor"], **arguments))
    assert found[-1]["truncated"] is False
    return [[skill["name"] for skill in page["skills"]] for page in found]


# -- what is refused -----------------------------------------------------------------------------

MISFITS = [
    ({"page_size": 0}, "page_size"),
    ({"page_size": 201}, "page_size"),
    ({"page_size": "201"}, "page_size"),
    ({"page_size": True}, "page_size"),
    ({"task_type": "chores"}, "task_type"),
    ({"origin": "web"}, "origin"),
    ({"scope": "world"}, "scope"),
    ({"source": 1}, "source"),
    ({"cursor": 1}, "cursor"),
    ({"project_id": "x"}, "project_id"),
    ({"query": "x"}, "query"),
]
FOREIGN_CURSORS = [
    "",
    "x",
    "2",
    "é",
    "bm8",  # no
    "W10",  # []
    "e30",  # {}
    "WzEsMl0",  # [1,2]
    "WyJhIl0",  # ["a"]
    "WyJhIiwiYiIsImMiXQ",  # ["a","b","c"]
    "A" * 5000,
    "[" * 4000,
]


@pytest.mark.parametrize("era", ERAS)
async def test_arguments_that_do_not_fit_are_refused_by_name(shelf, era):
    async with world(shelf, {}, skills(), listing="auto") as w, w.client(era) as client:
        for arguments, field in MISFITS:
            assert field in await refused(client, "list", arguments), arguments


async def test_a_cursor_that_was_not_given_here_is_refused(shelf):
    async with world(shelf, {}, skills()) as w, w.client() as client:
        for cursor in FOREIGN_CURSORS:
            assert "'cursor' is not one" in await refused(client, "list", {"cursor": cursor}), cursor


# -- pages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_what_it_tells_of_each_skill(shelf, era):
    async with world(shelf, {}, skills(skill_packs=[PACK]), listing="auto") as w, w.client(era) as client:
        result = await client.call("skill_list", {"page_size": 2})
    answer, [block] = result["structuredContent"], result["content"]
    assert answer["skills"] == [
        {
            "name": "pack.acme.brew",
            "trigger": "Brew tea.",
            "task_type": "domain",
            "origin": "pack",
            "scope": "global",
            "source": "pack/acme",
        },
        {
            "name": "skill-00",
            "trigger": "Does thing 0.",
            "task_type": "code",
            "origin": "dir",
            "scope": "project",
            "source": "repo",
        },
    ]
    assert (answer["total"], answer["truncated"], answer["errors_count"]) == (25, True, 0)
    assert "- pack.acme.brew (pack/acme): Brew tea." in block["text"]
    assert answer["next_cursor"] in block["text"]


@pytest.mark.parametrize("size", [1, 7, 12, 25, 200])
async def test_pages_show_every_visible_skill_once_and_in_order(shelf, size):
    config = skills(skill_packs=[PACK], disabled_skills=["skill-05"])
    async with world(shelf, {}, config) as w, w.client() as client:
        found = await pages(client, page_size=size)
    names = [name for page in found for name in page]
    assert [len(page) for page in found[:-1]] == [size] * (len(found) - 1)
    plain = [name.rpartition("/")[2] for name in names]
    assert plain == sorted(plain)
    assert len(set(names)) == len(names) == 24
    assert {"repo/skill-19", "user/skill-19", "pack.acme.brew"} < set(names)


async def test_every_name_of_a_list_loads_its_skill(shelf):
    async with world(shelf, {}, skills(skill_packs=[PACK])) as w, w.client() as client:
        names = await listed(client, page_size=200)
        for some in (names[:10], names[10:20], names[20:]):
            answer = await client.skill("get", names=some)
            assert [skill["name"] for skill in answer["skills"]] == [name.rpartition("/")[2] for name in some]


async def test_a_long_trigger_is_cut_short_and_kept_on_one_line(tmp_path):
    put(repo(tmp_path), "wordy", "Word\nand\u202e word, " * 100)
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        [skill] = (await client.skill("list"))["skills"]
    assert len(skill["trigger"]) <= 160
    assert not {"\n", "\u202e"} & set(skill["trigger"])


async def test_a_cursor_keeps_its_place_whatever_comes_or_goes_before_it(shelf):
    async with world(shelf, {}, skills()) as w, w.client() as client:
        first = await client.skill("list", page_size=10)
    (repo(shelf) / "skill-03" / "SKILL.md").unlink()
    put(repo(shelf), "aardvark", "Comes first.")
    async with world(shelf, {}, skills()) as w, w.client() as client:
        second = await client.skill("list", page_size=10, cursor=first["next_cursor"])
    assert [skill["name"] for skill in second["skills"]][:2] == ["skill-10", "skill-11"]


async def test_a_cursor_behind_the_last_skill_gives_an_empty_page(shelf):
    async with world(shelf, {}, skills()) as w, w.client() as client:
        cursor = (await client.skill("list", page_size=20))["next_cursor"]
        answer = await client.skill("list", cursor=cursor, task_type="code")
    assert (answer["skills"], answer["total"], answer["truncated"]) == ([], 4, False)


# -- filters -------------------------------------------------------------------------------------


async def test_filters_narrow_the_list_and_its_total(shelf):
    config = skills(skill_packs=[PACK])
    async with world(shelf, {}, config) as w, w.client() as client:
        for arguments, count in (
            ({"task_type": "code"}, 4),
            ({"task_type": "unknown"}, 4),
            ({"task_type": "browser"}, 0),
            ({"origin": "pack"}, 1),
            ({"origin": "dir"}, 24),
            ({"origin": "learned"}, 0),
            ({"scope": "global"}, 1),
            ({"scope": "project"}, 24),
            ({"scope": "tenant"}, 0),
            ({"source": "user"}, 4),
            ({"source": "pack/acme"}, 1),
            ({"source": "nobody"}, 0),
            ({"source": "repo", "task_type": "api"}, 16),
            ({"source": "user", "origin": "pack"}, 0),
        ):
            answer = await client.skill("list", **arguments, page_size=200)
            assert (len(answer["skills"]), answer["total"]) == (count, count), arguments


async def test_filters_hold_on_every_page(shelf):
    async with world(shelf, {}, skills()) as w, w.client() as client:
        found = await pages(client, task_type="code", page_size=3)
    assert found == [["skill-00", "skill-05", "skill-10"], ["skill-15"]]


# -- what could not be loaded --------------------------------------------------------------------


async def test_files_that_could_not_be_loaded_are_named_with_the_reason(tmp_path):
    put(repo(tmp_path), "good")
    bare = repo(tmp_path) / "bare" / "SKILL.md"
    bare.parent.mkdir()
    bare.write_text("# Only a heading\n", encoding="utf-8")
    (tmp_path / "packs").mkdir()
    (tmp_path / "packs" / "two.skill.jsonl").write_text(
        '{"trigger": "Do it.", "steps": ["one"]}\n{"trigger": "Do that."}\n', encoding="utf-8"
    )
    config = skills(skill_packs=[{"name": "acme", "path": "packs"}])
    async with world(tmp_path, {}, config) as w, w.client() as client:
        result = await client.call("skill_list")
    answer, [block] = result["structuredContent"], result["content"]
    assert len(answer["skills"]) == answer["errors_count"] == len(answer["errors"]) == 2
    by_path = {error["path"].rpartition("/")[2]: error for error in answer["errors"]}
    assert by_path.keys() == {"SKILL.md", "two.skill.jsonl"}
    assert "bare/SKILL.md" in by_path["SKILL.md"]["path"]
    assert "description" in by_path["SKILL.md"]["message"]
    assert "steps" in by_path["two.skill.jsonl"]["message"]
    assert by_path["two.skill.jsonl"]["line"] == 2
    assert "two.skill.jsonl:2: " in block["text"]
    assert str(tmp_path) not in str(result)
    for error in answer["errors"]:
        assert error["path"] in block["text"]
        assert error["message"] in block["text"]


async def test_of_many_files_that_could_not_be_loaded_twenty_are_named_and_all_counted(tmp_path):
    for number in range(30):
        file = repo(tmp_path) / f"bare-{number}" / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text("nothing\n", encoding="utf-8")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        answer = await client.skill("list")
    assert (answer["skills"], answer["total"]) == ([], 0)
    assert (answer["errors_count"], len(answer["errors"])) == (30, 20)


async def test_without_any_folder_there_is_an_empty_list_and_no_error(tmp_path):
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        assert await client.skill("list") == {"skills": [], "total": 0, "truncated": False, "errors_count": 0}
