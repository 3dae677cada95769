"""What is wrong with skills that no file says, from all that is known of them together."""

import json

import pytest
from shelving import put, repo, skills

from fakes.menu import tool
from toolcrib.base.model import Caller, JsonObject
from toolcrib.policy.sessions import RunActivations, Session
from toolcrib.skills.doctor import STALE_AFTER_DAYS, Health, SkillDoctor
from worlds import MemoryServer, World, text, world

pytestmark = pytest.mark.anyio

SERVERS = {"post": [tool("send"), tool("fetch"), tool("count"), tool("burn")], "git": [tool("log")]}
DAY_S = 86_400


async def examined(w: World) -> dict[str, Health]:
    doctor = SkillDoctor(w.handler.instructions._overviews._use_cases)
    person = Session("test", Caller("local"), RunActivations(), growing=False)
    found = await doctor.examine(person, w.clock.now)
    json.dumps([health.as_json for health in found.skills])
    return {health.name: health for health in found.skills}


def codes(health: Health) -> list[str]:
    return [code for code, _text in health.findings]


async def test_a_skill_with_nothing_wrong_has_no_finding(tmp_path):
    put(repo(tmp_path), "letters", "Writes letters to customers.", tools=["mcp__post__send", "Read", "tool_search"])
    async with world(tmp_path, SERVERS, skills()) as w:
        health = (await examined(w))["letters"]
    assert codes(health) == []
    assert (health.use, health.tools, health.outcomes) == (None, (), ())


async def test_tools_that_nobody_has_are_told_apart_from_those_that_policy_keeps(tmp_path):
    spelled = ["post__send", "mcp__post__shred", "gone.*", "post.burn", "git__push"]
    put(repo(tmp_path), "letters", "Writes letters.", tools=spelled)
    given: JsonObject = {**skills(), "policy": {"deny": ["post.burn"]}}
    async with world(tmp_path, SERVERS, given) as w:
        health = (await examined(w))["letters"]
    assert set(health.absent) == {"mcp__post__shred", "gone.*", "git__push"}
    assert health.denied == ("post.burn",)
    assert codes(health) == ["absent-tools", "denied-tools"]


async def test_tools_of_the_config_that_nobody_has_are_told_too(tmp_path):
    put(repo(tmp_path), "letters", "Writes letters.")
    given: JsonObject = {**skills(), "skill_tools": {"letters": ["post.shred"]}}
    async with world(tmp_path, SERVERS, given) as w:
        assert (await examined(w))["letters"].absent == ("post.shred",)


async def test_tools_of_a_server_that_was_never_listed_are_not_missed(tmp_path):
    put(repo(tmp_path), "letters", "Writes letters.", tools=["dead__anything"])
    dead = MemoryServer(start_error=OSError("no such program"))
    async with world(tmp_path, {"dead": dead}, skills()) as w:
        doctor = SkillDoctor(w.handler.instructions._overviews._use_cases)
        found = await doctor.examine(Session("test", Caller("local"), RunActivations(), growing=False), w.clock.now)
    assert found.unlisted == ("dead",)
    assert [health.absent for health in found.skills] == [()]


async def test_calls_tell_which_tools_it_is_worked_with_and_which_of_these_it_does_not_name(tmp_path):
    put(repo(tmp_path), "letters", "Writes letters.", tools=["post.send"])
    put(repo(tmp_path), "git-review", "Reviews changes.", tools=["git.log"])
    servers = {key: MemoryServer(tools) for key, tools in SERVERS.items()}
    servers["post"].answers["send"] = text("no", isError=True)
    async with world(tmp_path, servers, skills(outcomes=True)) as w, w.client() as client:
        await client.tool_call("post__fetch")  # before it was active
        await client.skill("get", names=["letters"])
        for name in ("post__send", "post__count", "post__count"):
            await client.tool_call(name)
        await client.skill("get", names=["git-review"])
        await client.tool_call("git__log")  # the other one names it
        await client.skill("report_outcome", name="letters", success=False)
    async with world(tmp_path, servers, skills(outcomes=True)) as w:
        found = await examined(w)
    letters, review = found["letters"], found["git-review"]
    assert [(each.tool, each.calls, each.failed) for each in letters.tools] == [("post__send", 1, 1)]
    assert [(each.tool, each.calls) for each in letters.unnamed] == [("post__count", 2)]
    assert [(each.tool, each.calls) for each in review.tools] == [("git__log", 1)]
    assert review.unnamed == ()
    assert (codes(letters), codes(review)) == (["unnamed-tools"], [])
    assert letters.use is not None
    assert letters.use.count == 1
    assert [(told.principal, told.reports, told.failure_share) for told in letters.outcomes] == [("local", 1, 1.0)]


async def test_calls_count_in_a_session_that_goes_on_with_what_an_earlier_one_activated(tmp_path):
    put(repo(tmp_path), "letters", "Writes letters.", tools=["post.send"])
    kept = {"tool_search": {"activation_scope": "session"}, "context": {"session_id": "s"}}
    servers = {key: MemoryServer(tools) for key, tools in SERVERS.items()}
    async with world(tmp_path, servers, {**skills(), **kept}) as w:
        for _connection in range(2):
            async with w.client() as client:
                await client.skill("get", names=["letters"])
                await client.tool_call("post__send")
    async with world(tmp_path, servers, skills()) as w:
        found = await examined(w)
    assert [(each.tool, each.calls) for each in found["letters"].tools] == [("post__send", 2)]


async def test_a_skill_that_its_own_words_do_not_find_is_told(tmp_path):
    put(repo(tmp_path), "vague", "Does it.", title="It")
    for number in range(12):
        put(repo(tmp_path), f"it-{number}", "Does it, it and it: does it.", f"# It\n\n{number}: does it.\n")
    async with world(tmp_path, {}, skills()) as w:
        found = await examined(w)
    assert "not-found" in codes(found["vague"])


async def test_a_skill_about_pages_goes_stale(tmp_path):
    put(repo(tmp_path), "log-in", "Logs in to the shop.", task_type="browser")
    put(repo(tmp_path), "letters", "Writes letters.")
    async with world(tmp_path, {}, skills()) as w:
        assert [codes(health) for health in (await examined(w)).values()] == [[], []]
        w.clock.now = max(file.stat().st_mtime for file in repo(tmp_path).rglob("SKILL.md"))
        w.clock.now += STALE_AFTER_DAYS * DAY_S
        found = await examined(w)
    assert found["log-in"].stale_days == STALE_AFTER_DAYS
    assert (codes(found["log-in"]), codes(found["letters"])) == (["stale"], [])


async def test_what_the_person_may_not_know_of_is_not_looked_at(tmp_path):
    put(repo(tmp_path), "letters", "Writes letters.")
    async with world(tmp_path, {}, skills(disabled_skills=["letters"])) as w:
        assert await examined(w) == {}
