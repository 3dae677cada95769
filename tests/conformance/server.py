"""A whole MCP server for the official conformance suite: every feature that its scenarios ask for, in both eras.

Run as ``python server.py`` on its pipes, or as ``python server.py PORT`` over streamable HTTP on loopback.
"""

import json
import sys
import warnings
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import anyio
import mcp_types as types
import uvicorn
from mcp import MCPError
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.caching import CacheHint
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

sys.path.insert(0, str(Path(__file__).parents[1]))

from conformance.content import (
    ANSWERS,
    ASKED_ONCE,
    ASKED_WITH_STATE,
    CONTEXT,
    NAME,
    PARAMETERS,
    PROMPTS,
    RESOURCES,
    STEPS,
    TEMPLATE,
    JsonObject,
    completion_of,
    fields,
    form,
    messages_of,
    text,
)

Context = ServerRequestContext[Any, Any]
FRESH = CacheHint(ttl_ms=60_000, scope="public")
CHANGING = CacheHint(ttl_ms=0, scope="private")
USER = fields(username={"type": "string"}, email={"type": "string"}, required=["username", "email"])
CITIES = ("paris", "park", "party", "test", "testing")
STATE = "state-ok"
ADDED_TOOL, ADDED_PROMPT = "test_dynamic_tool", "test_dynamic_prompt"

_input_request: TypeAdapter[Any] = TypeAdapter(types.InputRequest)
_RESULT_OF = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}


class Unanswered(Exception):
    """The client has to be asked first, and this revision asks by a result."""

    def __init__(self, requests: dict[str, JsonObject], state: str | None) -> None:
        super().__init__()
        self.result = types.InputRequiredResult.model_validate(
            {"inputRequests": requests, **({} if state is None else {"requestState": state})}
        )


class Asked:
    """One request for a tool or a prompt, by which the client can be asked, told and shown progress."""

    def __init__(self, context: Context, params: types.InputResponseRequestParams) -> None:
        self.context, self._params = context, params
        self.state = params.request_state
        self.is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def ask(self, requests: dict[str, JsonObject], state: str | None = None) -> dict[str, JsonObject]:
        """Return what the client says to each question: asked in the middle of the call, or by its result."""
        if self.is_modern:
            given = self._params.input_responses or {}
            if not requests.keys() <= given.keys():
                raise Unanswered(requests, state)
            return {key: given[key].model_dump(mode="json", by_alias=True, exclude_none=True) for key in requests}
        return {key: await self._ask_now(question) for key, question in requests.items()}

    async def _ask_now(self, question: JsonObject) -> JsonObject:
        request = _input_request.validate_python(question, by_name=False)
        on_this_stream = ServerMessageMetadata(related_request_id=self.context.request_id)
        answer = await self.context.session.send_request(request, _RESULT_OF[request.method], metadata=on_this_stream)
        return answer.model_dump(mode="json", by_alias=True, exclude_none=True)

    async def log(self, said: str) -> None:
        await self.context.session.send_log_message("info", said, related_request_id=self.context.request_id)

    def declares(self, capability: str) -> bool:
        declared = self.context.session.client_capabilities
        return getattr(declared, capability, None) is not None


class EverythingServer(Server[Any]):
    """The server; ``changes`` tells sessionless clients what has changed."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._extra_tools: list[str] = []
        self._extra_prompts: list[str] = []
        self.subscribed: set[str] = set()
        super().__init__(
            "conformance-server",
            version="1.0.0",
            cache_hints={
                "tools/list": CHANGING, "prompts/list": CHANGING, "resources/list": FRESH,
                "resources/templates/list": FRESH, "resources/read": FRESH,
            },
            get_tool_input_schema=lambda name: PARAMETERS.get(name, fields()),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_completion=self._complete,
            on_subscriptions_listen=ListenHandler(self._bus),
        )  # fmt: skip
        self.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        self.middleware = [RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=self.name)]

    def create_initialization_options(self, *_options: Any, **_more: Any) -> Any:
        changing = NotificationOptions(tools_changed=True, prompts_changed=True, resources_changed=True)
        return super().create_initialization_options(changing)

    # -- tools -----------------------------------------------------------------------------------

    async def _list_tools(self, _context: Context, _params: Any) -> types.ListToolsResult:
        names = [*ANSWERS, *ASKED_ONCE, *ASKED_WITH_STATE, *self._actions, *self._extra_tools]
        tools = [
            {"name": name, "description": f"Does {name}.", "inputSchema": PARAMETERS.get(name, fields())}
            for name in names
        ]
        return types.ListToolsResult.model_validate({"tools": tools})

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> Any:
        asked, given = Asked(context, params), params.arguments or {}
        try:
            return types.CallToolResult.model_validate(await self._run(asked, params.name, given))
        except Unanswered as unanswered:
            return unanswered.result

    async def _run(self, asked: Asked, name: str, given: JsonObject) -> JsonObject:
        if name in ANSWERS:
            return ANSWERS[name]
        if name in ASKED_ONCE:
            return _said(await asked.ask(ASKED_ONCE[name]))
        if name in ASKED_WITH_STATE:
            return _said(await asked.ask(ASKED_WITH_STATE[name], STATE), STATE)
        if name in self._actions:
            return await self._actions[name](self, asked, given)
        if name in self._extra_tools:
            return _said(name)
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {name}")

    async def _with_logging(self, asked: Asked, _given: JsonObject) -> JsonObject:
        for step in ("started", "processing data", "completed"):
            await asked.log(f"Tool execution {step}" if step != "processing data" else "Tool processing data")
            await anyio.sleep(0.05)
        return _said("Tool with logging executed successfully")

    async def _with_progress(self, asked: Asked, _given: JsonObject) -> JsonObject:
        for step in (0, 50, 100):
            await asked.context.session.report_progress(step, 100, f"Completed step {step} of 100")
            await anyio.sleep(0.05)
        return _said("Tool with progress executed successfully")

    async def _sampled(self, asked: Asked, given: JsonObject) -> JsonObject:
        answers = await asked.ask({"completion": completion_of(given["prompt"], 100)})
        return _said(f"LLM response: {answers['completion']['content'].get('text')}")

    async def _elicited(self, asked: Asked, given: JsonObject) -> JsonObject:
        answers = await asked.ask({"user": form(given["message"], USER)})
        return _said(f"User response: {json.dumps(answers['user'])}")

    async def _reconnecting(self, asked: Asked, _given: JsonObject) -> JsonObject:
        if asked.context.close_sse_stream is not None:
            await asked.context.close_sse_stream()
            await anyio.sleep(0.2)
        return _said("Reconnection test completed")

    async def _needs_sampling(self, asked: Asked, _given: JsonObject) -> JsonObject:
        if not asked.declares("sampling"):
            needed = {"requiredCapabilities": {"sampling": {}}}
            raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "Needs sampling", needed)
        return _said("The client can sample.")

    async def _within_capabilities(self, asked: Asked, _given: JsonObject) -> JsonObject:
        possible = {"sampling": completion_of("Say hello", 50), "elicitation": NAME}
        questions = {key: question for key, question in possible.items() if asked.declares(key)}
        return _said(await asked.ask(questions) if questions else "Nothing can be asked.")

    async def _in_rounds(self, asked: Asked, _given: JsonObject) -> JsonObject:
        first, second = STEPS
        if not asked.is_modern:
            return _said([await asked.ask({"step1": first}), await asked.ask({"step2": second})])
        if asked.state is None:
            raise Unanswered({"step1": first}, "round-1")
        if asked.state == "round-1":
            raise Unanswered({"step2": second}, json.dumps(await asked.ask({"step1": first}, "round-1")))
        return _said([json.loads(asked.state), await asked.ask({"step2": second}, asked.state)])

    async def _logging_quietly(self, asked: Asked, _given: JsonObject) -> JsonObject:
        await asked.log("Only for who asked for it")
        return _said("Logged")

    async def _change_tools(self, asked: Asked, _given: JsonObject) -> JsonObject:
        self._extra_tools = [] if self._extra_tools else [ADDED_TOOL]
        await asked.context.session.send_tool_list_changed()
        await self._bus.publish(ToolsListChanged())
        return _said("The list of tools has changed")

    async def _change_prompts(self, asked: Asked, _given: JsonObject) -> JsonObject:
        self._extra_prompts = [] if self._extra_prompts else [ADDED_PROMPT]
        await asked.context.session.send_prompt_list_changed()
        await self._bus.publish(PromptsListChanged())
        return _said("The list of prompts has changed")

    _actions: ClassVar[dict[str, Any]] = {
        "test_tool_with_logging": _with_logging,
        "test_tool_with_progress": _with_progress,
        "test_sampling": _sampled,
        "test_elicitation": _elicited,
        "test_reconnection": _reconnecting,
        "test_missing_capability": _needs_sampling,
        "test_logging_tool": _logging_quietly,
        "test_trigger_tool_change": _change_tools,
        "test_trigger_prompt_change": _change_prompts,
        "test_input_required_result_capabilities": _within_capabilities,
        "test_input_required_result_multi_round": _in_rounds,
    }

    # -- resources -------------------------------------------------------------------------------

    async def _list_resources(self, _context: Context, _params: Any) -> types.ListResourcesResult:
        resources = [
            {
                "uri": uri,
                "name": uri.removeprefix("test://"),
                "description": "For the suite.",
                "mimeType": it["mimeType"],
            }
            for uri, it in RESOURCES.items()
        ]
        return types.ListResourcesResult.model_validate({"resources": resources})

    async def _list_templates(self, _context: Context, _params: Any) -> types.ListResourceTemplatesResult:
        template = {"uriTemplate": TEMPLATE, "name": "template", "mimeType": "application/json"}
        return types.ListResourceTemplatesResult.model_validate({"resourceTemplates": [template]})

    async def _read(self, _context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        before, after = TEMPLATE.split("{id}")
        if uri.startswith(before) and uri.endswith(after):
            key = uri.removeprefix(before).removesuffix(after)
            said = json.dumps({"id": key, "templateTest": True, "data": f"Data for ID: {key}"})
            held = {"mimeType": "application/json", "text": said}
        elif (held := RESOURCES.get(uri)) is None:
            raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
        return types.ReadResourceResult.model_validate({"contents": [{"uri": uri, **held}]})

    async def _subscribe(self, _context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        self.subscribed.add(str(params.uri))
        return types.EmptyResult()

    async def _unsubscribe(self, _context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self.subscribed.discard(str(params.uri))
        return types.EmptyResult()

    # -- the rest --------------------------------------------------------------------------------

    async def _list_prompts(self, _context: Context, _params: Any) -> types.ListPromptsResult:
        prompts = [
            {
                "name": name,
                "description": "For the suite.",
                "arguments": [{"name": argument, "required": True} for argument in PROMPTS.get(name, [])],
            }
            for name in [*PROMPTS, *self._extra_prompts]
        ]
        return types.ListPromptsResult.model_validate({"prompts": prompts})

    async def _get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> Any:
        given = dict(params.arguments or {})
        if params.name not in PROMPTS and params.name not in self._extra_prompts:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
        if missing := [name for name in PROMPTS.get(params.name, []) if name not in given]:
            raise MCPError(types.INVALID_PARAMS, f"Missing arguments: {', '.join(missing)}")
        if params.name == "test_input_required_result_prompt":
            try:
                await Asked(context, params).ask({"user_context": CONTEXT})
            except Unanswered as unanswered:
                return unanswered.result
        return types.GetPromptResult.model_validate({"messages": messages_of(params.name, given)})

    async def _complete(self, _context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        values = [city for city in CITIES if city.startswith(params.argument.value)]
        return types.CompleteResult.model_validate({"completion": {"values": values, "total": len(values)}})

    async def _set_level(self, _context: Context, _params: types.SetLevelRequestParams) -> types.EmptyResult:
        return types.EmptyResult()


def _said(what: Any, also: str = "") -> JsonObject:
    said = what if isinstance(what, str) else json.dumps(what)
    return {"content": [text(f"{also} {said}".strip())]}


class Events(EventStore):
    """What has been sent, so that a client which has lost a stream can take it up again."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._sent: dict[str, tuple[StreamId, Any]] = {}

    async def store_event(self, stream_id: StreamId, message: Any) -> EventId:
        event_id = str(next(self._ids))
        self._sent[event_id] = (stream_id, message)
        return event_id

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        if last_event_id not in self._sent:
            return None
        stream_id = self._sent[last_event_id][0]
        for event_id, (stream, message) in list(self._sent.items()):
            if stream == stream_id and int(event_id) > int(last_event_id) and message is not None:
                await send_callback(EventMessage(message, event_id))
        return stream_id


async def _on_pipes(server: EverythingServer) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main() -> None:
    """Serve until it is stopped."""
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    server = EverythingServer()
    if len(sys.argv) < 2:
        anyio.run(_on_pipes, server)
        return
    app = server.streamable_http_app(event_store=Events(), retry_interval=100)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    main()
