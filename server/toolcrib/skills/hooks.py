"""What a host's hook gives on its standard input, and the JSON by which it takes text for the model.

Knows the hooks that hosts document; never knows which skills fit, or how a command is run.
"""

import json
from typing import Literal

from toolcrib.base.json_values import as_object
from toolcrib.errors import BadRequest
from toolcrib.model import JsonObject

HookHost = Literal["claude-code", "codex", "gemini-cli", "copilot-cli", "cursor"]

_PROMPTS = ("prompt", "initialPrompt", "user_prompt")
"""Names under which hosts give what the person has typed."""
_EVENTS = {"claude-code": "UserPromptSubmit", "codex": "UserPromptSubmit", "gemini-cli": "BeforeAgent"}
"""The event after which these hosts take text for the model."""


def task_of(given: str) -> str:
    """Return the task in what a hook was given: a JSON object with a prompt, or the plain text itself.

    Raises:
        BadRequest: it is JSON without a prompt.

    """
    try:
        said = as_object(json.loads(given))
    except ValueError:
        return given
    found = next((said[name] for name in _PROMPTS if isinstance(said.get(name), str)), None)
    if found is None:
        raise BadRequest("There is no prompt in what the hook was given.")
    return found


def hook_answer(host: HookHost, text: str) -> JsonObject:
    """Return what the hook of a host answers so that its model reads ``text``; without text, that all goes on."""
    if not text:
        return {}
    if host == "copilot-cli":
        return {"additionalContext": text}
    if host == "cursor":
        return {"additional_context": text}
    return {"hookSpecificOutput": {"hookEventName": _EVENTS[host], "additionalContext": text}}
