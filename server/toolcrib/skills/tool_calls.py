"""What calls tell of a skill: how often its tools were called while it was active, and failed.

Knows recorded events of skills and calls; never knows where they are kept, or what follows from a failure.
"""

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass

from toolcrib.base.json_values import as_list
from toolcrib.model import JsonObject


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """How often one tool, by its public name, was called while a skill was active."""

    tool: str
    calls: int
    failed: int


def calls_while_active(events: Iterable[JsonObject], skill_name: str, tools: Container[str]) -> tuple[ToolCalls, ...]:
    """Return the calls of a skill's tools in the sessions that were given the skill, from then until it was let go.

    The tool that failed most often comes first.
    """
    active: set[str] = set()
    calls, failed = Counter[str](), Counter[str]()
    for event in events:
        kind, session, tool = event.get("event"), str(event.get("session")), event.get("tool_name")
        if kind == "skill_get" and skill_name in as_list(event.get("names")):
            active.add(session)
        elif kind == "skill_deactivated" and event.get("skill_name") == skill_name:
            active.discard(session)
        elif kind == "tool_call" and session in active and isinstance(tool, str) and tool in tools:
            calls[tool] += 1
            failed[tool] += event.get("ok") is False
    ranked = sorted(calls, key=lambda name: (-failed[name], -calls[name], name))
    return tuple(ToolCalls(name, calls[name], failed[name]) for name in ranked)
