"""What the tools of the fake server do, by name; a tool with another name says that it ran.

Each takes the server, its arguments and the call it belongs to, and returns a result, or ``None`` for no answer.
"""

import json
import os
from collections import namedtuple

Call = namedtuple("Call", "name progress_token cancelled")  # noqa: PYI024 - typing costs a third of the start


def run(server, params, cancelled):
    call = Call(params["name"], (params.get("_meta") or {}).get("progressToken"), cancelled)
    return BEHAVIOURS.get(call.name, ran)(server, params.get("arguments") or {}, call)


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], "isError": False, **more}


def ran(server, arguments, call):
    return text(f"ran {call.name} {json.dumps(arguments)}")


def echo(server, arguments, call):
    return text(json.dumps(arguments), structuredContent=arguments)


def answer(server, arguments, call):
    return arguments["result"]


def fail(server, arguments, call):
    return text(arguments.get("message", "failed as asked"), isError=True)


def sleep(server, arguments, call):
    if call.cancelled.wait(arguments.get("seconds", 1)):
        return None
    return text("slept")


def storm(server, arguments, call):
    while not call.cancelled.is_set():
        server.notify("notifications/message", {"level": "info", "data": "once more"})


def progress(server, arguments, call):
    steps = arguments.get("steps", 3)
    for step in range(1, steps + 1):
        if arguments.get("held"):
            server.hold()
        if call.cancelled.wait(arguments.get("delay", 0)):
            return None
        if call.progress_token is not None:
            server.notify(
                "notifications/progress",
                {
                    "progressToken": call.progress_token,
                    "progress": step,
                    "total": steps,
                    "message": f"step {step}",
                },
            )
    return text(f"{steps} steps")


def crash(server, arguments, call):
    server.die(1, "crashed in a call")


def cancelled(server, arguments, call):
    return text(json.dumps(server.cancelled), structuredContent={"ids": list(server.cancelled)})


def counter(server, arguments, call):
    count = next(server.counter)
    return text(str(count), structuredContent={"n": count})


def env(server, arguments, call):
    environment = dict(os.environ)
    return text(json.dumps(environment), structuredContent=environment)


def big(server, arguments, call):
    return text("x" * arguments["bytes"])


BEHAVIOURS = {
    behaviour.__name__: behaviour
    for behaviour in (echo, answer, fail, sleep, storm, progress, crash, cancelled, counter, env, big)
}
TAKE_TIME = {"sleep", "storm", "progress"}
"""Behaviours that run beside the conversation; all others answer in order."""
