"""The least that these libraries can put between an HTTP client and server. Run as ``python http_relay.py URL PORT``.

It passes bytes on, by the web server and the HTTP client of the SDK, and keeps its connection: no MCP, no bounds, no
policy.
"""

import sys
from contextlib import suppress

import httpx2
import uvicorn

URL, PORT = sys.argv[1], int(sys.argv[2])
PASSED_ON = (b"accept", b"content-type", b"mcp-session-id", b"mcp-protocol-version", b"mcp-method", b"mcp-name")
PASSED_BACK = (b"content-type", b"mcp-session-id")
CLIENT = httpx2.AsyncClient(timeout=None)


async def body_of(receive):
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    return body


async def relay(scope, receive, send):
    headers = [(name, value) for name, value in scope["headers"] if name in PASSED_ON]
    request = CLIENT.build_request(scope["method"], URL, headers=headers, content=await body_of(receive))
    answer = await CLIENT.send(request, stream=True)
    back = [(name, value) for name, value in answer.headers.raw if name.lower() in PASSED_BACK]
    await send({"type": "http.response.start", "status": answer.status_code, "headers": back})
    with suppress(httpx2.TransportError):  # the server has ended
        async for chunk in answer.aiter_raw():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


uvicorn.run(relay, port=PORT, lifespan="off", log_level="error")
