"""What recorded events tell of the tools of a skill while it was active."""

from toolcrib.base.model import JsonObject
from toolcrib.skills.outcomes import ToolCalls, calls_of, calls_while_active

TOOLS = {"post__send", "post__fetch"}


def activated(name: str, *, session: str = "s1") -> JsonObject:
    return {"event": "skill_activated", "skill_name": name, "session": session}


def called(tool: str, *, ok: bool = True, session: str = "s1") -> JsonObject:
    return {"event": "tool_call", "tool_name": tool, "ok": ok, "session": session}


def test_calls_of_its_tools_count_from_when_the_skill_is_active_in_a_session():
    events = [
        called("post__send", ok=False),
        activated("other"),
        activated("letters"),
        called("post__fetch"),
        called("post__send"),
        called("post__send", ok=False),
        called("git__log", ok=False),
        called("post__send", ok=False, session="s2"),
    ]
    assert calls_of(calls_while_active(events), "letters", TOOLS) == (
        ToolCalls("post__send", 2, 1),
        ToolCalls("post__fetch", 1, 0),
    )
    assert calls_of(calls_while_active(events), "nothing", TOOLS) == ()


def test_they_count_until_it_is_let_go():
    let_go = {"event": "skill_deactivated", "skill_name": "letters", "session": "s1"}
    events = [activated("letters"), called("post__send"), let_go, called("post__send"), activated("letters")]
    assert calls_of(calls_while_active(events), "letters", TOOLS) == (ToolCalls("post__send", 1, 0),)


def test_what_is_no_such_event_counts_nothing():
    events = [activated("letters"), {"event": "tool_call"}, {"event": "skill_activated"}, {}, called("post__send")]
    assert calls_of(calls_while_active(events), "letters", TOOLS) == (ToolCalls("post__send", 1, 0),)


def test_a_skill_that_was_only_looked_at_was_not_active():
    looked_at = {"event": "skill_get", "names": ["letters"], "session": "s1"}
    assert calls_while_active([looked_at, called("post__send")]) == []


def test_each_call_is_told_with_all_skills_that_were_active_then():
    call = called("post__send")
    events = [activated("letters"), call, activated("forms"), call, call]
    assert {each.skills: each.calls for each in calls_while_active(events)} == {
        frozenset({"letters"}): 1,
        frozenset({"letters", "forms"}): 2,
    }
