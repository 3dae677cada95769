"""The JSON that a host's hook passes on standard input, and the JSON in which it accepts text for the model."""

import json
from typing import Literal

from toolcrib.base.errors import BadRequest
from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject

HookHost = Literal["claude-code", "codex", "gemini-cli", "copilot-cli", "cursor"]

_PROMPTS = ("prompt", "initialPrompt", "user_prompt")
"""Keys under which hosts pass the user's prompt."""
_EVENTS = {"claude-code": "UserPromptSubmit", "codex": "UserPromptSubmit", "gemini-cli": "BeforeAgent"}
"""The event after which these hosts accept text for the model."""


def task_of(given: str) -> str:
    """Return the task in a hook's input: a JSON object with a prompt, or plain text.

    Raises:
        BadRequest: the input is JSON without a prompt.

    """
    try:
        said = as_object(json.loads(given))
    except ValueError:
        return given
    found = next((said[name] for name in _PROMPTS if isinstance(said.get(name), str)), None)
    if found is None:
        raise BadRequest("The hook's input contains no prompt.")
    return found


def hook_answer(host: HookHost, text: str) -> JsonObject:
    """Return the output of a host's hook that passes ``text`` to its model; without text, one that just continues."""
    if not text:
        return {}
    if host == "copilot-cli":
        return {"additionalContext": text}
    if host == "cursor":
        return {"additional_context": text}
    return {"hookSpecificOutput": {"hookEventName": _EVENTS[host], "additionalContext": text}}
