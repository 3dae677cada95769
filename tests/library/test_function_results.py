"""What functions of a program return, and how they end, as the results of calls. See R397."""

import functools
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest
from pydantic import BaseModel

import toolcrib
from waiting import PATIENCE_S, settled

pytestmark = pytest.mark.anyio

IMAGE = types.ImageContent(type="image", data="AAAA", mime_type="image/png")
LINK = types.ResourceLink(type="resource_link", name="notes", uri="file:///notes.txt")


async def result_of(function: Callable[..., Any]) -> toolcrib.CallResult:
    async with toolcrib.open(tools=[function]) as crib:
        with anyio.fail_after(PATIENCE_S):
            return await crib.call(f"local__{function.__name__}")


async def returned(value: object) -> toolcrib.CallResult:
    def give():
        return value

    return await result_of(give)


# -- how a function runs ---------------------------------------------------------------------------


def in_a_thread(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapper():
        return await anyio.to_thread.run_sync(function)

    return wrapper


def on_a_loop_of_its_own(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper():
        return anyio.run(function)

    return wrapper


def handed_on(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper():
        return function()

    return wrapper


def awaited(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapper():
        return await function()

    return wrapper


def plain() -> str:
    return "done"


async def coroutine() -> str:
    await anyio.lowlevel.checkpoint()
    return "done"


@pytest.mark.sampled
@pytest.mark.parametrize(
    "function",
    [
        in_a_thread(plain),
        on_a_loop_of_its_own(coroutine),
        handed_on(plain),
        handed_on(coroutine),
        awaited(coroutine),
        handed_on(handed_on(in_a_thread(plain))),
    ],
    ids=["async around plain", "plain around async", "plain", "coroutine handed on", "async", "several"],
)
async def test_a_decorator_decides_how_a_function_runs_and_the_model_gets_its_value(function: Callable[..., Any]):
    assert await result_of(function) == toolcrib.CallResult(({"type": "text", "text": "done"},))


async def test_a_function_that_is_not_async_keeps_the_loop_free_also_while_its_values_are_made():
    made_in: list[int] = []

    def count() -> Iterator[int]:
        for each in range(3):
            made_in.append(threading.get_ident())
            yield each

    async def later() -> Iterator[int]:
        return count()

    assert (await result_of(count)).text == (await result_of(later)).text == "[0,1,2]"
    assert len(made_in) == 6
    assert threading.get_ident() not in made_in


async def test_an_asynchronous_generator_gives_all_that_it_yields():
    async def pages() -> AsyncIterator[object]:
        for name in ("one", "two"):
            await anyio.lowlevel.checkpoint()
            yield {"page": name}

    async def pictures() -> AsyncIterator[object]:
        yield "a picture"
        yield IMAGE

    assert (await result_of(pages)).text == '[{"page":"one"},{"page":"two"}]'
    assert [block["type"] for block in (await result_of(pictures)).content] == ["text", "image"]


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_generator_without_end_is_an_error(*, is_async: bool):
    def numbers():
        while True:
            yield 1

    async def numbers_in_time():
        while True:
            yield 1

    result = await result_of(numbers_in_time if is_async else numbers)
    assert result.is_error
    assert "yielded more than 100000 values" in result.text


async def test_a_generator_that_waits_is_given_up_when_its_time_is_over():
    ended = anyio.Event()

    async def news() -> AsyncIterator[str]:
        try:
            yield "one"
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with toolcrib.open(tools=[news]) as crib:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(crib.call, "local__news")
            await settled()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(PATIENCE_S):
            await ended.wait()


# -- what it returns -------------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"


class Page:
    def __str__(self) -> str:
        return "a page"


class Opaque:
    pass


class Photo(BaseModel):
    data: bytes


class Reading(BaseModel):
    value: float


@dataclass
class File:
    name: str
    data: bytes


class Pair(NamedTuple):
    caption: str
    image: types.ImageContent


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("as it is", "as it is"),
        ([1, "two"], '[1,"two"]'),
        (Colour.RED, "red"),
        (Page(), "a page"),
        ([Page()], '["a page"]'),
        (b"\xff\x00abc", "_wBhYmM="),
        (float("nan"), "null"),
        ([float("inf"), 1.5], "[null,1.5]"),
        ([Reading(value=float("nan"))], '[{"value":null}]'),
        (["NaN", "Infinity"], '["NaN","Infinity"]'),
    ],
)
async def test_a_value_that_is_no_object_is_a_text(value: object, text: str):
    assert await returned(value) == toolcrib.CallResult(({"type": "text", "text": text},))


@pytest.mark.parametrize(
    ("value", "structured"),
    [
        ({"image": b"\x89PNG\xff"}, {"image": "iVBOR_8="}),
        (File("f", b"\xff"), {"name": "f", "data": "_w=="}),
        ({"least": float("-inf"), "all": [float("nan")]}, {"least": None, "all": [None]}),
        (Reading(value=float("inf")), {"value": None}),
    ],
)
async def test_an_object_is_structured_content_that_is_json_in_every_client(value: object, structured: object):
    result = await returned(value)
    assert result.structured == structured
    assert json.loads(result.text, parse_constant=pytest.fail) == structured
    assert not result.is_error


@pytest.mark.parametrize("value", [Opaque(), {"a": [Opaque()]}, lambda: 1])
async def test_what_has_no_json_form_is_an_error_that_says_what_to_return(value: object):
    result = await returned(value)
    assert result.is_error
    assert "has no JSON form: let it return" in result.text
    assert " at 0x" not in result.text


async def test_a_model_whose_bytes_are_no_text_is_an_error_that_says_what_to_return():
    result = await returned(Photo(data=b"\xff"))
    assert result.is_error
    assert "returned an object of Photo with bytes that are no text: set ser_json_bytes='base64'" in result.text


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        (IMAGE, ["image"]),
        (LINK, ["resource_link"]),
        ([IMAGE, LINK], ["image", "resource_link"]),
        ((IMAGE, IMAGE), ["image", "image"]),
        (["a caption", IMAGE], ["text", "image"]),
        (Pair("a caption", IMAGE), ["text", "image"]),
        ([IMAGE, {"width": 3}], ["image", "text"]),
    ],
)
async def test_blocks_of_the_sdk_are_the_blocks_of_the_result_with_what_stands_beside_them(
    value: object, kinds: list[str]
):
    result = await returned(value)
    assert [block["type"] for block in result.content] == kinds
    assert result.structured is None
    assert [block for block in result.content if block["type"] == "image"] == [
        {"type": "image", "data": "AAAA", "mimeType": "image/png"} for kind in kinds if kind == "image"
    ]


# -- how it ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_function_that_exits_has_failed_and_the_program_goes_on(*, is_async: bool):
    def parse():
        raise SystemExit(2)

    async def parse_later():
        raise SystemExit(2)

    async with toolcrib.open(tools=[parse, parse_later, plain]) as crib:
        result = await crib.call("local__parse_later" if is_async else "local__parse")
        assert (result.is_error, result.text) == (True, "SystemExit: 2")
        assert (await crib.call("local__plain")).text == "done"


async def test_an_error_says_what_went_wrong_inside_a_task_group_and_without_a_text():
    async def fetch():
        async with anyio.create_task_group() as tasks, anyio.create_task_group() as inner:
            inner.start_soon(fail)
            tasks.start_soon(anyio.lowlevel.checkpoint)

    async def fail():
        raise ValueError("no such page")

    def bare():
        raise ValueError

    assert (await result_of(fetch)).text == "ValueError: no such page"
    assert (await result_of(bare)).text == "ValueError"
