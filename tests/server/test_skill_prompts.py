"""Prompts: the skills for a task, before it is begun, and one skill that a person asks for (R141, R156, R193)."""

import re

import pytest
from mcp import MCPError
from shelving import put, repo, skills, user

from fakes.menu import tool
from toolcrib.base.text import estimate_tokens
from worlds import world

pytestmark = pytest.mark.anyio

ERAS = ("legacy", "auto")
TASK = "skills_for_task"
LONG = "\n".join(f"{number}. Take step {number}, slowly and with care, and look twice." for number in range(1, 120))


async def got(client, name: str, /, **arguments: str) -> str:
    """Return the text of a prompt."""
    answer = await client.ask("prompts/get", {"name": name, "arguments": arguments})
    [message] = answer["messages"]
    assert (message["role"], message["content"]["type"]) == ("user", "text")
    return message["content"]["text"]


async def refused(client, name: str, /, **arguments: object) -> str:
    """Return the message with which a prompt is refused."""
    with pytest.raises(MCPError) as caught:
        await client.ask("prompts/get", {"name": name, "arguments": arguments})
    assert caught.value.code == -32602
    return caught.value.message


@pytest.fixture
def forms(tmp_path):
    """Write five skills about forms, two of them with a tag, and one about something else."""
    for number in range(5):
        put(repo(tmp_path), f"form-{number}", f"Fills in forms of kind {number}.", tags=["paper"] if number > 2 else [])
    put(repo(tmp_path), "cooking", "Cooks a soup.", "Stir.")
    return tmp_path


@pytest.mark.parametrize("era", ERAS)
async def test_two_prompts_are_listed_with_their_arguments(forms, era):
    async with world(forms, {}, skills(), listing="auto") as w, w.client(era) as client:
        listed = (await client.ask("prompts/list"))["prompts"]
    arguments = {
        prompt["name"]: {each["name"]: each.get("required", False) for each in prompt["arguments"]} for prompt in listed
    }
    assert arguments == {
        TASK: {"task": True, "top_k": False, "frame": False, "task_type": False, "max_tokens": False},
        "skill": {"name": True},
    }
    assert all(prompt["title"] and prompt["description"] for prompt in listed)
    assert all(each["description"] for prompt in listed for each in prompt["arguments"])


# -- the skills for a task -----------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_a_task_brings_the_skills_that_fit_it_best_ready_to_be_followed(forms, era):
    async with world(forms, {}, skills(), listing="auto") as w, w.client(era) as client:
        text = await got(client, TASK, task="fill in a form of kind 3")
        [event] = w.happened("skills_retrieved")
    assert text.index("/form-3/SKILL.md") < text.index("1. Open the thing.")
    assert text.count("<skill ") == text.count("</skill>") == 3
    assert "untrusted" in text
    assert "cooking" not in text
    assert event["skill_count"] == 3


async def test_top_k_is_how_many_there_may_be(forms):
    async with world(forms, {}, skills()) as w, w.client() as client:
        for top_k, expected in (("1", 1), ("2", 2), ("10", 5)):
            assert (await got(client, TASK, task="fill in forms", top_k=top_k)).count("<skill ") == expected


async def test_the_config_says_how_many_there_are_where_nobody_else_does(forms):
    async with world(forms, {}, skills(top_k=4)) as w, w.client() as client:
        assert (await got(client, TASK, task="fill in forms")).count("<skill ") == 4
        assert w.happened("skills_retrieved")[0]["top_k_used"] == 4


async def test_a_frame_prefers_skills_with_its_tag_and_keeps_the_others(forms):
    async with world(forms, {}, skills()) as w, w.client() as client:
        plain, paper, stone = [
            re.findall(r'uri="skill://repo/([^/]+)/', await got(client, TASK, task="fill in forms", top_k="4", **frame))
            for frame in ({}, {"frame": "paper"}, {"frame": "stone"})
        ]
    assert sorted(paper[:2]) == ["form-3", "form-4"]
    assert len(paper) == 4
    assert plain == stone != paper


async def test_the_config_says_which_tags_belong_to_a_frame(forms):
    put(repo(forms), "form-9", "Fills in forms of kind 9.", tags=["office"])
    config = skills(frames={"desk": ["office"], "talk": []})
    async with world(forms, {}, config) as w, w.client() as client:
        assert "No skill fits" in await got(client, TASK, task="fill in forms", frame="talk")
        desk = await got(client, TASK, task="fill in forms", frame="desk", top_k="1")
    assert "/form-9/" in desk


async def test_a_kind_of_task_prefers_skills_of_this_kind(forms):
    put(repo(forms), "form-9", "Fills in forms of kind 9.", task_type="code")
    async with world(forms, {}, skills()) as w, w.client() as client:
        assert "/form-9/" in await got(client, TASK, task="fill in forms", task_type="code", top_k="1")
        assert "'task_type'" in await refused(client, TASK, task="fill in forms", task_type="stone")


async def test_of_several_skills_with_one_name_the_nearest_is_brought(forms):
    put(user(forms), "form-3", "Fills in forms of kind 3, another way.")
    async with world(forms, {}, skills()) as w, w.client() as client:
        text = await got(client, TASK, task="fill in a form of kind 3", top_k="10")
    assert text.count("/form-3/SKILL.md") == 1
    assert "skill://repo/form-3/SKILL.md" in text


async def test_a_task_is_told_how_to_get_more_of_its_skills_and_their_tools(forms):
    put(repo(forms), "hidden-tool", "Files a report of kind 9.", "1. Call github__create_issue.\n2. Look.\n")
    servers = {"github": [tool("create_issue")]}
    async with world(forms, servers, skills()) as w, w.client() as client:
        text = await got(client, TASK, task="file a report of kind 9", top_k="1")
    assert "skill_get gives each of these whole, by its URI." in text
    assert text.endswith("tool_search: github__create_issue")


async def test_what_fits_no_skill_is_said_to(forms):
    async with world(forms, {}, skills()) as w, w.client() as client:
        assert await got(client, TASK, task="xyzzy") == "No skill fits this task; continue without one."
        [event] = w.happened("skills_retrieved")
    assert (event["skill_count"], event["final_tokens_est"], event["raw_tokens_est"]) == (0, 0, 0)


@pytest.mark.sampled
@pytest.mark.parametrize("budget", [200, 400, 2000])
async def test_the_skills_of_a_task_keep_the_budget_together(tmp_path, budget):
    for name in ("one", "two", "three"):
        put(repo(tmp_path), name, "Fills in forms.", LONG)
    async with world(tmp_path, {}, skills(max_tokens=budget)) as w, w.client() as client:
        text = await got(client, TASK, task="fill in forms")
        [event] = w.happened("skills_retrieved")
    assert estimate_tokens(text) <= event["final_tokens_est"] <= budget < event["raw_tokens_est"]
    assert all(name in text for name in ("one", "two", "three"))


async def test_a_host_may_ask_for_less(tmp_path):
    for name in ("one", "two", "three"):
        put(repo(tmp_path), name, "Fills in forms.", LONG)
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        more, less = [await got(client, TASK, task="fill in forms", max_tokens=most) for most in ("2000", "200")]
    assert estimate_tokens(less) <= 200 < estimate_tokens(more) <= 2000


async def test_the_event_has_exactly_these_keys(forms):
    async with world(forms, {}, skills()) as w, w.client() as client:
        await got(client, TASK, task="fill in forms", top_k="2")
        [event] = w.happened("skills_retrieved")
    measures = {"skill_count", "top_k_used", "raw_tokens_est", "final_tokens_est", "was_summarized"}
    assert event.keys() == {*measures, "event", "ts", "session", "duration_ms"} | (event.keys() & {"level"})
    assert (event["skill_count"], event["top_k_used"], event["was_summarized"]) == (2, 2, False)
    assert 0 < event["final_tokens_est"] <= 2000


async def test_a_task_brings_only_what_this_caller_may_see(forms):
    async with world(forms, {}, skills(disabled_skills=["form-3"])) as w, w.client() as client:
        assert "form-3" not in await got(client, TASK, task="fill in forms of kind 3", top_k="10")


async def test_arguments_that_do_not_fit_are_refused_by_name(forms):
    async with world(forms, {}, skills()) as w, w.client() as client:
        for name, outside in (("top_k", ("0", "11")), ("max_tokens", ("199", "6001"))):
            for value in (*outside, "-1", "x", "", "2.5", "1e1", "٣", "9" * 5000):
                assert f"'{name}'" in await refused(client, TASK, task="fill in forms", **{name: value})
        for arguments in ({}, {"task": ""}, {"task": " \n"}):
            assert "'task'" in await refused(client, TASK, **arguments)
        for arguments in ({}, {"name": ""}, {"name": "  "}):
            assert "'name'" in await refused(client, "skill", **arguments)
        await refused(client, TASK, task=7)
        assert await refused(client, "summarise") == "Unknown prompt: summarise"


async def test_a_task_without_end_is_answered_all_the_same(forms):
    async with world(forms, {}, skills()) as w, w.client() as client:
        assert "<skill " in await got(client, TASK, task="fill in forms " + "and more " * 50_000)


# -- one skill -----------------------------------------------------------------------------------


async def test_a_skill_comes_whole_by_any_of_its_names_as_often_as_it_is_asked_for(forms):
    put(repo(forms), "cooking", "Cooks a soup.", LONG)
    async with world(forms, {}, skills()) as w, w.client() as client:
        text = await got(client, "skill", name="cooking")
        assert "119. Take step 119" in text
        for name in ("cooking", "repo/cooking", "skill://repo/cooking/SKILL.md", " Cooking "):
            assert await got(client, "skill", name=name) == text


async def test_a_skill_that_is_not_there_or_several_is_refused_with_what_to_do(forms):
    put(user(forms), "cooking", "Cooks something else.", "Bake.")
    async with world(forms, {}, skills(disabled_skills=["form-1"])) as w, w.client() as client:
        unknown = await refused(client, "skill", name="form-x")
        assert "skill_search" in unknown
        assert await refused(client, "skill", name="form-1") == unknown.replace("form-x", "form-1")
        several = await refused(client, "skill", name="cooking")
        assert "repo/cooking" in several
        assert "user/cooking" in several
        assert "Bake." in await got(client, "skill", name="user/cooking")
        assert "did you mean: repo/cooking, user/cooking" in await refused(client, "skill", name="kitchen:cooking")


async def test_what_its_author_keeps_from_models_is_there_for_a_person(forms):
    put(repo(forms), "mine", "Does it my way.", None, **{"disable-model-invocation": True})
    async with world(forms, {}, skills(disabled_skills=["form-1"])) as w, w.client() as client:
        assert "# mine" in await got(client, "skill", name="mine")
        assert "mine" not in await got(client, TASK, task="do it my way", top_k="10")
        assert (await client.skill("get", names=["mine"]))["not_found"] == ["mine"]
        assert "Not found" in await refused(client, "skill", name="form-1")
