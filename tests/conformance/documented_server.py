"""The server of the suite as the documentation of a framework writes one: its tools push their questions.

Run as ``python documented_server.py FRAMEWORK`` on its pipes, or with a port after it over streamable HTTP on
loopback. FRAMEWORK is ``sdk`` (MCPServer of the Python SDK) or ``fastmcp``; either serves both eras by itself. Nothing
can be pushed in 2026-07-28: the tools that the suite has for that revision return their questions.
"""

import json
import sys
import warnings
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import mcp_types as types
import uvicorn
from mcp import MCPError
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import BaseModel, Field, TypeAdapter

sys.path.insert(0, str(Path(__file__).parents[1]))

from conformance.content import (
    ANSWERS,
    ASKED_ONCE,
    ASKED_WITH_STATE,
    CONTEXT,
    KEYWORDS,
    NAME,
    RESOURCES,
    STEPS,
    TEMPLATE,
    JsonObject,
    completion_of,
    messages_of,
)
from conformance.server import ADDED_PROMPT, ADDED_TOOL, CITIES, STATE, Events

FRAMEWORK = sys.argv[1] if len(sys.argv) > 1 else "sdk"

if TYPE_CHECKING or FRAMEWORK == "sdk":
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.server.mcpserver.prompts.base import Message
    from mcp.server.mcpserver.tools import Tool
else:
    from fastmcp import Context
    from fastmcp import FastMCP as MCPServer
    from fastmcp.exceptions import ToolError
    from fastmcp.prompts import Message
    from fastmcp.tools import Tool

warnings.simplefilter("ignore", MCPDeprecationWarning)


def json_schema_2020_12_tool() -> str:
    """Have arguments with the keywords of JSON Schema 2020-12."""
    return "The schema is what matters."


with_keywords = Tool.from_function(json_schema_2020_12_tool)
with_keywords.parameters = KEYWORDS
_content: TypeAdapter[Any] = TypeAdapter(types.ContentBlock)
IS_FASTMCP = FRAMEWORK == "fastmcp"
server: Any = MCPServer("conformance-server", version="1.0.0", tools=[with_keywords])
Result = types.CallToolResult | types.InputRequiredResult


# -- questions that are pushed ---------------------------------------------------------------------


class User(BaseModel):
    """Who somebody is."""

    username: str
    email: str


class Defaults(BaseModel):
    """A form in which every field is filled in already."""

    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Annotated[str, Field(json_schema_extra={"enum": ["active", "inactive", "pending"]})] = "active"
    verified: bool = True


def _field(name: str) -> Any:
    """Return a field whose schema is the one that the suite describes."""
    asked = ASKED_ONCE["test_elicitation_sep1330_enums"]["choices"]
    return Field(alias=name, json_schema_extra=asked["params"]["requestedSchema"]["properties"][name])


class Choices(BaseModel):
    """A form with each kind of choice."""

    untitled_single: Annotated[str, _field("untitledSingle")]
    titled_single: Annotated[str, _field("titledSingle")]
    legacy_enum: Annotated[str, _field("legacyEnum")]
    untitled_multi: Annotated[list[str], _field("untitledMulti")]
    titled_multi: Annotated[list[str], _field("titledMulti")]


@server.tool()
async def test_elicitation(message: str, context: Context) -> str:
    """Ask the user for a name and an address."""
    answer = await context.elicit(message, User)
    return f"User response: {answer}"


@server.tool()
async def test_elicitation_sep1034_defaults(context: Context) -> str:
    """Ask with a form that has defaults."""
    answer = await context.elicit("Please provide user information", Defaults)
    return f"User response: {answer}"


@server.tool()
async def test_elicitation_sep1330_enums(context: Context) -> str:
    """Ask with a form of choices."""
    answer = await context.elicit("Please choose", Choices)
    return f"User response: {answer}"


@server.tool()
async def test_sampling(prompt: str, context: Context) -> str:
    """Let the client's model answer."""
    question = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
    answer = await context.session.create_message([question], max_tokens=100)
    return f"LLM response: {answer.content}"


# -- questions that are returned -------------------------------------------------------------------


def _asking(requests: dict[str, JsonObject], state: str | None = None) -> types.InputRequiredResult:
    return types.InputRequiredResult.model_validate({"inputRequests": requests, "requestState": state})


def _answers(context: Context, requests: dict[str, JsonObject]) -> dict[str, JsonObject] | None:
    """Return what the client has answered, once it has answered everything."""
    given = context.input_responses or {}
    if not requests.keys() <= given.keys():
        return None
    return {key: given[key].model_dump(mode="json", by_alias=True, exclude_none=True) for key in requests}


def _said(what: Any, also: str = "") -> types.CallToolResult:
    said = what if isinstance(what, str) else json.dumps(what)
    return types.CallToolResult(content=[types.TextContent(text=f"{also} {said}".strip())])


def _add_returning(name: str, requests: dict[str, JsonObject], state: str | None) -> None:
    async def returning(context: Context) -> Result:
        answers = _answers(context, requests)
        return _asking(requests, state) if answers is None else _said(answers, state or "")

    server.tool(name=name, description=f"Does {name}.")(returning)


for _name in [name for name in ASKED_ONCE if not name.startswith("test_elicitation")]:
    _add_returning(_name, ASKED_ONCE[_name], None)
for _name in ASKED_WITH_STATE:
    _add_returning(_name, ASKED_WITH_STATE[_name], STATE)


@server.tool()
async def test_input_required_result_multi_round(context: Context) -> Result:
    """Ask twice, and remember the first answer in the state."""
    first, second = STEPS
    if context.request_state is None:
        return _asking({"step1": first}, "round-1")
    if context.request_state == "round-1":
        answers = _answers(context, {"step1": first})
        return (
            _asking({"step1": first}, "round-1") if answers is None else _asking({"step2": second}, json.dumps(answers))
        )
    answers = _answers(context, {"step2": second})
    if answers is None:
        return _asking({"step2": second}, context.request_state)
    return _said([json.loads(context.request_state), answers])


def _declares(context: Context, capability: str) -> bool:
    return getattr(context.session.client_capabilities, capability, None) is not None


@server.tool()
async def test_input_required_result_capabilities(context: Context) -> Result:
    """Ask only what the client can be asked."""
    possible = {"sampling": completion_of("Say hello", 50), "elicitation": NAME}
    questions = {key: question for key, question in possible.items() if _declares(context, key)}
    if not questions:
        return _said("Nothing can be asked.")
    answers = _answers(context, questions)
    return _asking(questions) if answers is None else _said(answers)


@server.tool()
async def test_missing_capability(context: Context) -> str:
    """Refuse a client without a model."""
    if not _declares(context, "sampling"):
        needed = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "Needs sampling", needed)
    return "The client can sample."


Region = Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]


# -- tools that ask nothing ------------------------------------------------------------------------


def _add_answering(name: str, answer: JsonObject) -> None:
    async def answering() -> types.CallToolResult:
        return types.CallToolResult.model_validate(answer)

    server.tool(name=name, description=f"Does {name}.")(answering)


for _name in ANSWERS.keys() - {"test_error_handling", "json_schema_2020_12_tool", "test_custom_headers"}:
    _add_answering(_name, ANSWERS[_name])


@server.tool()
async def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@server.tool()
async def test_custom_headers(region: Region = "") -> str:  # noqa: PT028 - a tool, which the suite names
    """Take an argument from a header."""
    return "The headers are what matters."


@server.tool()
async def test_tool_with_logging(context: Context) -> str:
    """Log three times."""
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.info(said)
        await anyio.sleep(0.05)
    return "Tool with logging executed successfully"


@server.tool()
async def test_logging_tool(context: Context) -> str:
    """Log to a client that asked for it."""
    await context.info("Only for who asked for it")
    return "Logged"


@server.tool()
async def test_tool_with_progress(context: Context) -> str:
    """Report progress."""
    for step in (0, 50, 100):
        await context.report_progress(step, 100, f"Completed step {step} of 100")
        await anyio.sleep(0.05)
    return "Tool with progress executed successfully"


@server.tool()
async def test_reconnection(context: Context) -> str:
    """End the response stream while the call goes on, so that the client has to come back."""
    await context.close_sse_stream()
    await anyio.sleep(0.2)
    return "Reconnection test completed"


@server.tool()
async def test_trigger_tool_change(context: Context) -> str:
    """Add a tool, or remove it again."""
    holder: Any = server.local_provider if IS_FASTMCP else server
    if ADDED_TOOL in [tool.name for tool in await server.list_tools()]:
        holder.remove_tool(ADDED_TOOL)
    else:
        _add_answering(ADDED_TOOL, ANSWERS["test_simple_text"])
    await (_notify(context, types.ToolListChangedNotification()) if IS_FASTMCP else context.notify_tools_changed())
    return "The list of tools has changed"


@server.tool()
async def test_trigger_prompt_change(context: Context) -> str:
    """Add a prompt, or remove it again."""
    holder: Any = server.local_provider if IS_FASTMCP else server
    if ADDED_PROMPT in [prompt.name for prompt in await server.list_prompts()]:
        holder.remove_prompt(ADDED_PROMPT)
    else:
        server.prompt(name=ADDED_PROMPT)(test_simple_prompt)
    await (_notify(context, types.PromptListChangedNotification()) if IS_FASTMCP else context.notify_prompts_changed())
    return "The list of prompts has changed"


async def _notify(context: Any, notification: Any) -> None:
    """Tell a client of FastMCP, which serves no subscription streams."""
    await context.send_notification(notification)


# -- resources, prompts and completions ------------------------------------------------------------


def _add_resource(uri: str, held: JsonObject) -> None:
    def read() -> str | bytes:
        return held["text"] if "text" in held else b64decode(held["blob"])

    server.resource(uri, name=uri.removeprefix("test://"), mime_type=held["mimeType"])(read)


for _uri in RESOURCES:
    _add_resource(_uri, RESOURCES[_uri])


@server.resource(TEMPLATE, mime_type="application/json")
def template(id: str) -> str:  # noqa: A002 - the template names it
    """Return the data of an id."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def _messages(name: str, **given: str) -> list[Message]:
    blocks = [message["content"] for message in messages_of(name, given)]
    return [Message(_content.validate_python(block), role="user") for block in blocks]


@server.prompt()
def test_simple_prompt() -> list[Message]:
    """Say something."""
    return _messages("test_simple_prompt")


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> list[Message]:
    """Say the arguments."""
    return _messages("test_prompt_with_arguments", arg1=arg1, arg2=arg2)


@server.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Message]:  # noqa: N803 - the suite names it
    """Embed a resource."""
    return _messages("test_prompt_with_embedded_resource", resourceUri=resourceUri)


@server.prompt()
def test_prompt_with_image() -> list[Message]:
    """Show a picture."""
    return _messages("test_prompt_with_image")


@server.prompt()
async def test_input_required_result_prompt(context: Context) -> Any:
    """Ask before anything is said."""
    requests = {"user_context": CONTEXT}
    return _asking(requests) if _answers(context, requests) is None else _messages("test_simple_prompt")


@server.completion()
async def complete(_reference: Any, argument: types.CompletionArgument, _context: Any) -> types.Completion:
    """Complete names of cities."""
    values = [city for city in CITIES if city.startswith(argument.value)]
    return types.Completion(values=values, total=len(values))


async def _acknowledged(_context: Any, _params: Any) -> types.EmptyResult:
    return types.EmptyResult()


# Neither framework has a public way to serve these, which clients of 2025-11-25 expect beside what it serves.
_low_level: Any = getattr(server, "_mcp_server" if IS_FASTMCP else "_lowlevel_server")
_low_level.add_request_handler("resources/subscribe", types.SubscribeRequestParams, _acknowledged)
_low_level.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, _acknowledged)
_low_level.add_request_handler("logging/setLevel", types.SetLevelRequestParams, _acknowledged)


def main() -> None:
    """Serve until it is stopped."""
    if len(sys.argv) < 3:
        server.run("stdio")
        return
    options: Any = {"event_store": Events(), "retry_interval": 100}
    app = server.http_app(**options) if IS_FASTMCP else server.streamable_http_app(**options)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    main()
