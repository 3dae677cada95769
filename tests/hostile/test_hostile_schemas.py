"""Schemas made to be slow or large: neither taking one in nor checking arguments by it keeps anything else waiting."""

import json
import random
import resource
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from counts import count
from test_hostile_definitions import SERVER, SHAPING

from toolcrib.tools.arguments.schema_check import SchemaChecker
from toolcrib.tools.definitions.ingest import ingest

pytestmark = pytest.mark.hostile

MIB = 1024 * 1024
CHECK_MS = 50
"""``limits.schema_check_ms``, which a call waits at most; ten of it on a machine that does other things too."""
GOAL_S = 0.05
SLOW = "^(a+)+$", "(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*a){12}x", "(?:a?){30}a{30}"
Schema = dict[str, Any]


def pattern(chance: random.Random) -> Schema:
    return {"type": "string", "pattern": chance.choice(SLOW) * chance.choice((1, 5))}


def doubling(chance: random.Random) -> Schema:
    schema: Schema = {"type": "string", "minLength": 5}
    for _ in range(chance.randrange(5, 14)):
        schema = {chance.choice(("anyOf", "oneOf", "allOf")): [schema, schema]}
    return schema


def deep(chance: random.Random) -> Schema:
    schema: Schema = {"type": "string"}
    for _ in range(chance.randrange(50, 400)):
        schema = {"type": "array", "items": schema} if chance.random() < 0.5 else {"properties": {"a": schema}}
    return schema


def wide(chance: random.Random) -> Schema:
    return {"properties": {f"p{number}": {"type": "string"} for number in range(chance.randrange(100, 8000))}}


def circular(chance: random.Random) -> Schema:
    inner = {"anyOf": [{"$ref": "#/properties/a"}] * chance.randrange(1, 6)}
    return {"$ref": "#/properties/a", **inner}


def remote(chance: random.Random) -> Schema:
    return {"$ref": chance.choice(("https://evil.example/s.json", "file:///etc/passwd", "http://169.254.169.254/x#/y"))}


def many(chance: random.Random) -> Schema:
    return {"enum": [f"value {number}" for number in range(chance.randrange(100, 9000))]}


def unique(chance: random.Random) -> Schema:
    return {"type": "array", "uniqueItems": True, "contains": doubling(chance)}


KINDS: tuple[Callable[[random.Random], Schema], ...] = (
    *(pattern, doubling, deep, wide, circular, remote, many, unique),
)
VALUES: tuple[Any, ...] = ("a" * 40 + "!", [{"n": number} for number in range(900)], {"a": {"a": {}}}, 5, None)


def test_no_schema_takes_long_to_take_in_or_to_check(record_property, monkeypatch):
    asked = list[object]()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **_options: asked.append(given) or [])
    chance, worst = random.Random(7), {"taken in": 0.0, "checked": 0.0}
    checker = SchemaChecker(CHECK_MS, time.monotonic)
    checker.check("warm", {"type": "object"}, {})  # the library is loaded, in a thread, at the first check
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(count("schemas")):
        schema = {"type": "object", "properties": {"a": KINDS[number % len(KINDS)](chance)}}
        schema = json.loads(json.dumps(schema))  # as it comes: nothing of it is the same object twice
        tool = {"name": f"t{number}", "description": "Does it.", "inputSchema": schema}
        began = time.thread_time()
        taken = ingest(SERVER, [tool], SHAPING)
        worst["taken in"] = max(worst["taken in"], time.thread_time() - began)
        for record in taken.records:
            began = time.thread_time()
            checker.check(record.fingerprint, record.definition["inputSchema"], {"a": chance.choice(VALUES)})
            worst["checked"] = max(worst["checked"], time.thread_time() - began)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    told = ", ".join(f"{what} in {seconds * 1000:.0f} ms" for what, seconds in worst.items())
    record_property("count", number + 1)
    record_property("worst", f"{told} of CPU, in worker threads; {grown} MiB more; {len(asked)} look-ups")
    record_property("goal met", max(worst.values()) < GOAL_S)
    assert asked == []
    assert grown < 64
    assert worst["checked"] < CHECK_MS / 1000 * 5
    assert worst["taken in"] < 0.5
