"""Call statistics of skills: which tools were called, and failed, while which skills were active.

Knows recorded events of skills and calls; never knows where they are kept, or what follows from a failure.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass

from toolcrib.base.model import JsonObject


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """How often one tool, by its public name, was called while a skill was active."""

    tool: str
    calls: int
    failed: int

    @property
    def as_json(self) -> JsonObject:
        """Return it as JSON."""
        return {"tool": self.tool, "calls": self.calls, "failed": self.failed}


@dataclass(frozen=True, slots=True)
class CallsWhile:
    """How often one tool was called while exactly these skills, by their names in events, were active in a session."""

    skills: frozenset[str]
    tool: str
    calls: int
    failed: int


def calls_while_active(events: Iterable[JsonObject]) -> list[CallsWhile]:
    """Return all calls in sessions while skills were active.

    A skill that was only inspected (a file of it, or its requirements before a confirmation) was never active.
    """
    active: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
    calls, failed = Counter[tuple[frozenset[str], str]](), Counter[tuple[frozenset[str], str]]()
    for event in events:
        kind, session, tool = event.get("event"), str(event.get("session")), event.get("tool_name")
        if kind == "skill_activated":
            active[session] |= {str(event.get("skill_name"))}
        elif kind == "skill_deactivated":
            active[session] -= {str(event.get("skill_name"))}
        elif kind == "tool_call" and active[session] and isinstance(tool, str):
            calls[active[session], tool] += 1
            failed[active[session], tool] += event.get("ok") is False
    return [CallsWhile(skills, tool, count, failed[skills, tool]) for (skills, tool), count in calls.items()]


def calls_of(called: Iterable[CallsWhile], skill_name: str, tools: Container[str]) -> tuple[ToolCalls, ...]:
    """Return the calls of these tools while a skill was active. The tool that failed most often comes first."""
    return summed(each for each in called if skill_name in each.skills and each.tool in tools)


def summed(called: Iterable[CallsWhile]) -> tuple[ToolCalls, ...]:
    """Return calls by tool, whichever skills were active. The tool that failed most often comes first."""
    calls, failed = Counter[str](), Counter[str]()
    for each in called:
        calls[each.tool] += each.calls
        failed[each.tool] += each.failed
    ranked = sorted(calls, key=lambda name: (-failed[name], -calls[name], name))
    return tuple(ToolCalls(name, calls[name], failed[name]) for name in ranked)
