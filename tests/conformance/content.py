"""What the server behind the official conformance suite holds: texts, pictures, schemas and questions.

Names and values are those that the suite's scenarios describe; nothing here does anything.
"""

from typing import Any

JsonObject = dict[str, Any]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def text(said: str) -> JsonObject:
    return {"type": "text", "text": said}


def fields(*, required: list[str] | None = None, **properties: JsonObject) -> JsonObject:
    """Return the schema of an object."""
    schema: JsonObject = {"type": "object", "properties": properties}
    return schema if required is None else {**schema, "required": required}


# -- contents ------------------------------------------------------------------------------------

IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": SILENCE, "mimeType": "audio/wav"}
EMBEDDED = {
    "type": "resource",
    "resource": {
        "uri": "test://embedded-resource",
        "mimeType": "text/plain",
        "text": "This is an embedded resource content.",
    },
}
MIXED = {
    "type": "resource",
    "resource": {
        "uri": "test://mixed-content-resource",
        "mimeType": "application/json",
        "text": '{"test":"data","value":123}',
    },
}

ANSWERS: dict[str, JsonObject] = {
    "test_simple_text": {"content": [text("This is a simple text response for testing.")]},
    "test_image_content": {"content": [IMAGE]},
    "test_audio_content": {"content": [AUDIO]},
    "test_embedded_resource": {"content": [EMBEDDED]},
    "test_multiple_content_types": {"content": [text("Multiple content types test:"), IMAGE, MIXED]},
    "test_error_handling": {
        "content": [text("This tool intentionally returns an error for testing")],
        "isError": True,
    },
    "json_schema_2020_12_tool": {"content": [text("The schema is what matters.")]},
    "test_custom_headers": {"content": [text("The headers are what matters.")]},
}
"""Tools that always answer the same."""

# -- schemas -------------------------------------------------------------------------------------

KEYWORDS: JsonObject = {
    "$schema": DIALECT,
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

PARAMETERS: dict[str, JsonObject] = {
    "json_schema_2020_12_tool": KEYWORDS,
    "test_custom_headers": fields(region={"type": "string", "x-mcp-header": "Region"}),
    "test_sampling": fields(prompt={"type": "string", "description": "What to ask the model"}, required=["prompt"]),
    "test_elicitation": fields(message={"type": "string", "description": "What to ask"}, required=["message"]),
}
"""Tools that take arguments."""

# -- questions -----------------------------------------------------------------------------------


def form(message: str, schema: JsonObject) -> JsonObject:
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def completion_of(prompt: str, max_tokens: int) -> JsonObject:
    messages = [{"role": "user", "content": text(prompt)}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": max_tokens}}


STRING = {"type": "string"}
ROOTS: JsonObject = {"method": "roots/list", "params": {}}
NAME = form("What is your name?", fields(name=STRING, required=["name"]))
CONFIRMATION = form("Please confirm", fields(ok={"type": "boolean"}, required=["ok"]))
CONTEXT = form("What context should the prompt use?", fields(context=STRING, required=["context"]))
STEPS = (
    form("Step 1: What is your name?", fields(name=STRING, required=["name"])),
    form("Step 2: What is your favorite color?", fields(color=STRING, required=["color"])),
)

ASKED_ONCE: dict[str, dict[str, JsonObject]] = {
    "test_streaming_elicitation": {"user_name": NAME},
    "test_elicitation_sep1034_defaults": {
        "user": form(
            "Please provide user information",
            fields(
                name={"type": "string", "default": "John Doe"},
                age={"type": "integer", "default": 30},
                score={"type": "number", "default": 95.5},
                status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
                verified={"type": "boolean", "default": True},
            ),
        )
    },
    "test_elicitation_sep1330_enums": {
        "choices": form(
            "Please choose",
            fields(
                untitledSingle={"type": "string", "enum": ["option1", "option2", "option3"]},
                titledSingle={"type": "string", "oneOf": [{"const": "value1", "title": "First Option"}]},
                legacyEnum={"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
                untitledMulti={"type": "array", "items": {"type": "string", "enum": ["option1", "option2"]}},
                titledMulti={
                    "type": "array",
                    "items": {
                        "anyOf": [
                            {"const": "value1", "title": "First Choice"},
                            {"const": "value2", "title": "Second Choice"},
                        ]
                    },
                },
            ),
        )
    },
    "test_input_required_result_elicitation": {"user_name": NAME},
    "test_input_required_result_sampling": {
        "capital_question": completion_of("What is the capital of France?", 100),
    },
    "test_input_required_result_list_roots": {"client_roots": ROOTS},
}
"""Tools that ask the client something, and answer with what it said."""

ASKED_WITH_STATE: dict[str, dict[str, JsonObject]] = {
    "test_input_required_result_request_state": {"confirm": CONFIRMATION},
    "test_input_required_result_tampered_state": {"confirm": CONFIRMATION},
    "test_input_required_result_multiple_inputs": {
        "user_name": NAME,
        "greeting": completion_of("Generate a greeting", 50),
        "client_roots": ROOTS,
    },
}
"""Likewise, with a state that has to come back."""

# -- resources and prompts -----------------------------------------------------------------------

RESOURCES: dict[str, JsonObject] = {
    "test://static-text": {
        "mimeType": "text/plain",
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mimeType": "image/png", "blob": PIXEL},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched resource content"},
}
TEMPLATE = "test://template/{id}/data"

EXAMPLE = "test://example-resource"
PROMPTS: dict[str, list[str]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}
"""Prompts and the arguments that each of them needs."""


def messages_of(prompt: str, given: dict[str, str]) -> list[JsonObject]:
    """Return what a prompt comes to."""
    match prompt:
        case "test_prompt_with_arguments":
            said = [text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")]
        case "test_prompt_with_embedded_resource":
            content = "Embedded resource content for testing."
            resource = {"uri": given["resourceUri"], "mimeType": "text/plain", "text": content}
            said = [{"type": "resource", "resource": resource}, text("Please process the embedded resource above.")]
        case "test_prompt_with_image":
            said = [IMAGE, text("Please analyze the image above.")]
        case _:
            said = [text("This is a simple prompt for testing.")]
    return [{"role": "user", "content": block} for block in said]
