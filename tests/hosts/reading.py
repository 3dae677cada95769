"""What toolcrib sends a client, and how much of it a host's model was shown in a run.

Knows answers of toolcrib's and requests to a model; never knows what is expected of which host.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

from e2e.crib import connected
from hosts.dialects import JsonObject, strings_but_results
from hosts.running import STEPS, Run

_DECODER = json.JSONDecoder()
_COUNT = re.compile(r" \(\d+ tools\)")
"""Of the first line: known once every server has been listed, which a host may not wait for."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What a client is sent that shows nothing to anybody: the instructions, what ``tool_search`` says it is for, and
    the whole answers of two steps.
    """

    instructions: str
    purpose: str
    search: JsonObject
    skill: JsonObject

    @property
    def hits(self) -> list[str]:
        """The lines of the search's text that describe a tool."""
        return [line for line in text_of(self.search).splitlines() if "tickets__" in line]


def text_of(answer: JsonObject) -> str:
    """Return the text of an answer."""
    return "".join(block["text"] for block in answer["content"])


def structured_of(answer: JsonObject) -> str:
    """Return the structured content of an answer as compact JSON, or nothing."""
    structured = answer.get("structuredContent")
    return "" if structured is None else json.dumps(structured, ensure_ascii=False, separators=(",", ":"))


async def ask(command: list[str], name: str = "mcp") -> Sent:
    """Ask a toolcrib what every host asks it, as a client of this name."""
    async with connected(command, mode="legacy", name=name) as client:
        search = await client.call(*STEPS["search"])
        skill = await client.call(*STEPS["skill"])
        [purpose] = [tool["description"] for tool in await client.tools() if tool["name"] == "tool_search"]
        return Sent(client.instructions or "", purpose.splitlines()[0], search, skill)


def reached(run: Run, sent: Sent) -> Literal["tools", "names", "server", "nothing"]:
    """Return what of toolcrib's the model knew when it was first asked."""
    if any(sent.purpose in text for text in strings_but_results(run.before.tools)):
        return "tools"
    if "toolcrib__tool_search" in run.prompt:
        return "names"
    return "server" if "toolcrib" in run.prompt else "nothing"


def client_of(run: Run) -> str:
    """Return the name that the host gave itself, as toolcrib's events have it."""
    lines = (run.folder / "cache" / "events.jsonl").read_text(encoding="utf-8").splitlines()
    labels = [label for line in lines if (label := json.loads(line)["session"])]
    return labels[0].partition(" (")[2].removesuffix(")")


def was_found(run: Run, sent: Sent) -> bool:
    """Return whether the host's own search brought ``tool_search`` up, by its name there or by what it is for."""
    answer = run.answers["own search"]
    return "toolcrib__tool_search" in answer or sent.purpose in answer


def told(run: Run, sent: Sent) -> Literal["whole", "first line", "none", "some"]:
    """Return how much of the instructions the model was shown when it was first asked."""
    first, *others = filter(None, _COUNT.sub("", sent.instructions).splitlines())
    prompt = _COUNT.sub("", run.prompt)
    shown = [line for line in others if line in prompt]
    if shown:
        return "whole" if shown == others and first in prompt else "some"
    return "first line" if first in prompt else "none"


def forms(shown: str, sent: Sent) -> Counter[str]:
    """Count how often the answer to the search was shown as text and how often as structured content."""
    found: Counter[str] = Counter()
    for value in _values(shown):
        if isinstance(value, str):
            found["text"] += sum(value.count(hit) for hit in sent.hits[:1])
        elif value.get("tools") and "query" in value:
            found["structured"] += 1
    return +found


def _values(shown: str) -> Iterator[str | JsonObject]:
    """Yield every string and object of what was shown: plain text, and whatever JSON stands in it."""
    at = plain = 0
    while at < len(shown):
        if shown[at] in "[{":
            try:
                value, end = _DECODER.raw_decode(shown, at)
            except ValueError:
                pass
            else:
                yield shown[plain:at]
                yield from _inside(value)
                at = plain = end
                continue
        at += 1
    yield shown[plain:]


def _inside(value: Any) -> Iterator[str | JsonObject]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        inner = cast("JsonObject", value)
        yield inner
        yield from _inside(list(inner.values()))
    elif isinstance(value, list):
        for one in cast("list[Any]", value):
            yield from _inside(one)
