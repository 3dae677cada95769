"""Outcomes of skills: who may report one, how often, and what it does to the searches of whom."""

import json

import pytest
from shelving import found, put, refused, repo, skills, user

from fakes.menu import tool
from toolcrib.base.model import Caller
from toolcrib.policy.sessions import RunActivations, Session
from toolcrib.policy.state import OUTCOME_HALF_LIFE_S
from toolcrib.skills.answers import GetRequest
from toolcrib.skills.outcomes import OutcomeReports, ToolCalls
from worlds import ERAS, OWN_TOOLS, MemoryServer, text, world

pytestmark = pytest.mark.anyio

CONFIG = skills(outcomes=True)
TOOL = "skill_report_outcome"
QUERY = "fill in forms of kind paper"


@pytest.fixture
def forms(tmp_path):
    """Write skills about forms; the first of them fits best by a little."""
    put(repo(tmp_path), "paper-forms", "Fills in forms of paper, of any kind.")
    put(repo(tmp_path), "web-forms", "Fills in forms of a kind of paper on the web.")
    for number in range(3):
        put(repo(tmp_path), f"other-{number}", f"Fills in nothing, number {number}; forms are read.")
    return tmp_path


async def report(client, name: str, *, success: bool, **more: str) -> dict:
    return await client.skill("report_outcome", name=name, success=success, **more)


async def failed(client, name: str, times: int = 5) -> None:
    """Have a skill given and fail so many times."""
    for _ in range(times):
        await client.skill("get", names=[name], force=True)
        await report(client, name, success=False)


async def scores(client, query: str = QUERY) -> dict[str, float]:
    return {each["name"]: each["score"] for each in (await client.skill("search", query=query))["skills"]}


@pytest.mark.parametrize("era", ERAS)
async def test_only_a_config_that_asks_for_outcomes_lists_the_tool(forms, era):
    async with world(forms, {}, skills(), listing="auto") as w, w.client(era) as client:
        assert await client.names() == OWN_TOOLS
    async with world(forms, {}, CONFIG, listing="auto") as w, w.client(era) as client:
        assert await client.names() == [*OWN_TOOLS, TOOL]


@pytest.mark.parametrize("era", ERAS)
async def test_one_report_counts_for_each_time_that_the_text_is_given(forms, era):
    async with world(forms, {}, CONFIG, listing="auto") as w, w.client(era) as client:
        assert "no outcome to report" in await refused(
            client, "report_outcome", {"name": "paper-forms", "success": True}
        )
        await client.skill("get", names=["paper-forms"])
        answer = await report(client, "skill://repo/paper-forms/SKILL.md", success=True, note="All fields were there.")
        assert answer == {"name": "skill://repo/paper-forms/SKILL.md", "success": True}
        await client.skill("get", names=["paper-forms"])
        assert "already" in await refused(client, "report_outcome", {"name": "paper-forms", "success": True})
        await client.skill("get", names=["paper-forms"], force=True)
        await report(client, "repo/paper-forms", success=False)
        events = [(each["skill_name"], each["success"], each["note"]) for each in w.happened("skill_outcome")]
    assert events == [("paper-forms", True, "All fields were there."), ("paper-forms", False, "")]


async def test_a_skill_that_is_hidden_denied_or_not_there_is_refused_in_the_same_words(forms):
    async with world(forms, {}, skills(outcomes=True, disabled_skills=["web-forms"])) as w, w.client() as client:
        said = [
            (await refused(client, "report_outcome", {"name": name, "success": True})).replace(name, "NAME")
            for name in ("paper-forms", "web-forms", "nothing-such")
        ]
    assert len(set(said)) == 1


async def test_of_several_skills_with_one_name_the_one_that_is_meant_has_to_be_said(forms):
    put(user(forms), "paper-forms", "Fills in forms of paper, another way.", "Look twice.\n")
    async with world(forms, {}, CONFIG) as w, w.client() as client:
        await client.skill("get", names=["repo/paper-forms", "user/paper-forms"])
        said = await refused(client, "report_outcome", {"name": "paper-forms", "success": True})
        assert said.endswith("name one of: repo/paper-forms, user/paper-forms")
        await report(client, "user/paper-forms", success=True)
        await report(client, "paper-forms", success=True)


async def test_a_file_of_a_skill_and_a_text_that_had_no_room_are_no_delivery(forms):
    async with world(forms, {}, CONFIG) as w, w.client() as client:
        await client.skill("get", names=["paper-forms"], file="SKILL.md")
        assert "no outcome" in await refused(client, "report_outcome", {"name": "paper-forms", "success": True})


async def test_what_one_session_was_given_no_other_reports_on(forms):
    async with world(forms, {}, CONFIG) as w, w.client() as one, w.client() as other:
        await one.skill("get", names=["paper-forms"])
        assert "no outcome" in await refused(other, "report_outcome", {"name": "paper-forms", "success": False})


@pytest.mark.parametrize("era", ERAS)
async def test_five_failures_lower_the_score_by_a_tenth_and_time_raises_it_again(forms, era):
    async with world(forms, {}, CONFIG, listing="auto") as w, w.client(era) as client:
        before = await scores(client)
        await failed(client, "paper-forms", 4)
        assert await scores(client) == before
        await failed(client, "paper-forms", 1)
        after = await scores(client)
        assert after["paper-forms"] == pytest.approx(before["paper-forms"] - 0.1)
        assert {**after, "paper-forms": 0} == {**before, "paper-forms": 0}
        w.clock.now += OUTCOME_HALF_LIFE_S
        assert (await scores(client))["paper-forms"] == pytest.approx(before["paper-forms"] - 0.05)
        w.clock.now += 5 * OUTCOME_HALF_LIFE_S
        assert await scores(client) == before


async def test_successes_keep_a_skill_where_it_is(forms):
    async with world(forms, {}, CONFIG) as w, w.client() as client:
        before = await scores(client)
        for success in (True, True, False, False, False):
            await client.skill("get", names=["paper-forms"], force=True)
            await report(client, "paper-forms", success=success)
        assert await scores(client) == before


async def test_no_score_falls_below_nothing_and_none_changes_where_the_query_is_the_name(forms):
    async with world(forms, {}, CONFIG) as w, w.client() as client:
        last = list(await scores(client))[-1]
        await failed(client, last)
        assert (await scores(client))[last] == 0.0
        [first, *_] = (await client.skill("search", query=last))["skills"]
        assert (first["name"], first["score"], first["reason"]) == (last, 1.0, "exact_name")


async def test_a_skill_that_is_set_back_behind_another_is_told_without_certainty(tmp_path):
    for name in ("alpha", "beta"):
        put(repo(tmp_path), name, "Fills in forms of paper.", "Look.\n")
    put(repo(tmp_path), "gamma", "Forms.", "Look.\n")
    async with world(tmp_path, {}, CONFIG) as w, w.client() as client:
        assert (await found(client, "fill in forms of paper"))[:2] == ["alpha", "beta"]
        await failed(client, "alpha")
        answer = await client.skill("search", query="fill in forms of paper")
    assert [each["name"] for each in answer["skills"]][:2] == ["beta", "alpha"]
    assert answer["confidence"] == "low"


async def test_before_a_task_it_counts_too(tmp_path):
    for name in ("alpha", "beta"):
        put(repo(tmp_path), name, "Fills in forms of paper.", "Look.\n")
    params = {"name": "skills_for_task", "arguments": {"task": "fill in forms of paper", "top_k": "1"}}
    async with world(tmp_path, {}, CONFIG) as w, w.client() as client:
        before = json.dumps(await client.ask("prompts/get", params))
        await failed(client, "alpha")
        after = json.dumps(await client.ask("prompts/get", params))
    assert ("/alpha/" in before, "/alpha/" in after) == (True, False)
    assert "/beta/" in after


async def test_one_caller_cannot_bury_a_skill_for_another(forms):
    ann, bob = Caller("ann"), Caller("bob")
    async with world(forms, {}, CONFIG) as w, w.client(caller=ann) as one, w.client(caller=bob) as other:
        before = await scores(other)
        await failed(one, "paper-forms", 20)
        assert await scores(other) == before
        assert (await scores(one))["paper-forms"] < before["paper-forms"]


async def test_outcomes_outlive_the_cache_and_end_with_the_text_that_they_are_about(forms):
    async with world(forms, {}, CONFIG) as w, w.client() as client:
        before = await scores(client)
        await failed(client, "paper-forms")
    async with world(forms, {}, CONFIG) as w, w.client() as client:
        assert (await scores(client))["paper-forms"] < before["paper-forms"]
    put(repo(forms), "paper-forms", "Fills in forms of paper, of any kind.", "# paper-forms\n\n1. Now it is mended.\n")
    async with world(forms, {}, CONFIG) as w, w.client() as client:
        assert (await scores(client))["paper-forms"] == pytest.approx(before["paper-forms"], abs=0.05)


async def test_a_note_is_kept_without_secrets_and_denied_names(forms):
    config = {**CONFIG, "policy": {"deny": ["github__delete_repo"]}}
    note = "github__delete_repo told me: mail jane.doe@acme-corp.com, key " + "ghp_" + "a1B2" * 9
    async with world(forms, {"github": []}, config) as w, w.client() as client:
        await client.skill("get", names=["paper-forms"])
        await report(client, "paper-forms", success=False, note=note)
        [event] = w.happened("skill_outcome")
    assert "told me" in event["note"]
    assert [secret for secret in ("jane.doe", "ghp_a1B2", "delete_repo") if secret in event["note"]] == []


async def test_arguments_that_are_no_report_are_refused(forms):
    async with world(forms, {}, CONFIG) as w, w.client() as client:
        for wrong in ({"success": "perhaps"}, {"success": 2}, {}, {"success": True, "note": 7}):
            assert "do not fit" in await refused(client, "report_outcome", {"name": "paper-forms", **wrong})


async def test_calls_of_its_tools_are_explained_from_the_events_and_move_nothing(forms):
    put(repo(forms), "letters", "Writes letters.", tools=["mcp__post__send", "post.fetch", "Read"])
    servers = {"post": MemoryServer([tool("send"), tool("fetch"), tool("count")])}
    async with world(forms, servers, CONFIG) as w:
        async with w.client() as client:
            before = await scores(client, "write letters")
            await client.tool_call("post__send")
            await client.skill("get", names=["letters"])
            servers["post"].answers["send"] = text("no", isError=True)
            for name in ("post__send", "post__send", "post__fetch", "post__count"):
                await client.tool_call(name)
            assert await scores(client, "write letters") == before
    async with world(forms, servers, CONFIG) as w, w.client() as client:
        reports = OutcomeReports(w.handler.instructions._overviews._use_cases)
        person = Session("test", Caller(), RunActivations(), growing=False)
        shown = await reports._use_cases.get(person, GetRequest(("letters",)))
        [explained] = await reports.explained(person, [shown.skills[0].skill])
    assert explained.calls == (ToolCalls("post__send", 2, 2), ToolCalls("post__fetch", 1, 0))
