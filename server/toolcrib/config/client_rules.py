"""Other clients' rules about the tools of a server, as written in its entry of their config files.

Knows the names of such keys and when one denies nothing; never knows a policy. A tool denied to another program must
not become callable here because its key was not understood.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from toolcrib.base.errors import Problem
from toolcrib.base.text import one_line

_RULE = re.compile(
    r"""(?=.*tool).*(?:exclud|disabl|den[iy]|block|forbid|ignor|hid|includ|enabl|allow|permi|only|filter|select|polic)
    | tools\Z | (?:allow|allowed|deny|denied|blocked|permissions)\Z""",
    re.IGNORECASE | re.VERBOSE,
)
"""``excludeTools``, ``includeTools``, ``toolPermissions``, ``disabled_tools``, ``tools`` and what sounds like these."""
_APPROVAL = re.compile(r"auto|always|trust", re.IGNORECASE)
"""Keys about what runs without a question to the person: it may run all the same."""
_NAMES_WHAT_MAY = re.compile(r"(?!.*disallow).*(?:includ|enabl|allow|permit|only|select)|tools\Z", re.IGNORECASE)
_NAME_MAX = 100
_SHOWN_MAX = 5


def foreign_rules(key: str, entry: Mapping[str, Any], path: str) -> Problem | None:
    """Return why the server ``key`` cannot be served: its entry forbids tools in words of another client."""
    rules = rules_of(entry)
    if not rules:
        return None
    named = ", ".join(map(one_line, list(rules)[:_SHOWN_MAX]))
    hints = [_hint(key, name, value) for name, value in rules.items()]
    reason = f"restricts its tools with another client's keys ({named}), which toolcrib does not apply"
    return Problem(path, reason, f"{'; '.join(hints[:_SHOWN_MAX])}; then remove {named} here", is_mistake=True)


def rules_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of an entry that forbid tools, each with its value."""
    return {name: value for name, value in entry.items() if is_rule(name) and _forbids(name, value)}


def names_what_may(name: str) -> bool:
    """Return whether a key of a rule lists the tools that may be used, and not those that may not."""
    return _NAMES_WHAT_MAY.match(name) is not None


def is_rule(name: str) -> bool:
    """Return whether a key sounds like a rule about which tools may be used."""
    return len(name) <= _NAME_MAX and _RULE.match(name) is not None and _APPROVAL.match(name) is None


def _forbids(name: str, value: Any) -> bool:
    if isinstance(value, dict):
        return not all(member is True for member in cast("dict[str, Any]", value).values())
    if isinstance(value, list) and "*" in cast("list[Any]", value):
        return not names_what_may(name)
    says_nothing = value is None or (not value and not names_what_may(name))
    return not says_nothing


def _hint(key: str, name: str, value: Any) -> str:
    """Return what to write instead, as far as the value can be understood."""
    names = cast("list[Any]", value) if isinstance(value, list) else list[Any]()
    tools = [each for each in names if isinstance(each, str) and each]
    if not tools or len(tools) != len(names):
        return 'put tools that must not be called into toolcrib.policy.deny, as "SERVER.TOOL"'
    if names_what_may(name):
        return f"put tools that may be called into toolcrib.policy.allow: {_globs(key, tools)}"
    return f"write toolcrib.policy.deny: {_globs(key, tools)}"


def _globs(key: str, tools: list[str]) -> str:
    more = ", …" if len(tools) > _SHOWN_MAX else ""
    shown = ", ".join(json.dumps(one_line(f"{key}.{tool}"), ensure_ascii=False) for tool in tools[:_SHOWN_MAX])
    return f"[{shown}{more}]"
