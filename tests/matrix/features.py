"""What is tried of each server: the calls by which a client exercises a feature, as JSON for any client."""

from typing import Any

JsonObject = dict[str, Any]

FORM = {"size": "L"}
ROOT = {"uri": "file:///work", "name": "work"}
SAMPLED = "Wear it."
"""What the clients answer: to a form, to `roots/list`, and as a model."""

NOTHING = "nothing in time"
"""What a feature comes to that brings nothing."""

EVERYDAY: JsonObject = {
    "plain": {"call": ["plain", {"text": "hello"}]},
    "form": {"call": ["form", {}]},
    "url": {"call": ["url", {}]},
    "sampling": {"call": ["sampling", {}]},
    "roots": {"call": ["roots", {}]},
    "pushed form": {"call": ["pushed", {}]},
    "logging": {"log": ["log", {}]},
    "progress": {"progress": ["progress", {}]},
    "resource updated": {"updated": ["update", {}], "uri": "note://watched"},
    "tools changed": {"changed": ["grow", {"kind": "tools"}], "of": "tools"},
    "prompts changed": {"changed": ["grow", {"kind": "prompts"}], "of": "prompts"},
    "cancellation": {"cancelled": ["wait", {"key": "KEY"}], "then": ["cancelled", {"key": "KEY"}]},
}
"""The servers of this folder. KEY is another text each time."""

EVERYTHING: JsonObject = {
    "plain": {"call": ["echo", {"message": "hello"}]},
    "form": {"call": ["trigger-elicitation-request", {}]},
    "url": {"call": ["trigger-url-elicitation", {"url": "https://example.com/pay", "elicitationId": "pay-1"}]},
    "sampling": {"call": ["trigger-sampling-request", {"prompt": "A slogan?", "maxTokens": 20}]},
    "roots": {"call": ["get-roots-list", {}]},
    "logging": {"log": ["toggle-simulated-logging", {}], "any": True},
    "progress": {"progress": ["trigger-long-running-operation", {"duration": 0.1, "steps": 2}], "any": True},
    "resource updated": {
        "updated": ["toggle-subscriber-updates", {}],
        "uri": "demo://resource/static/document/features.md",
    },
    "cancellation": {
        "cancelled": ["trigger-long-running-operation", {"duration": 4, "steps": 8}],
        "then": ["echo", {"message": "still there"}],
    },
}
"""npm's server-everything, which changes no lists, and reports the last step together with the answer (``any``)."""
