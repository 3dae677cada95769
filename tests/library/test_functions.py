from dataclasses import dataclass
from datetime import date
from functools import partial, wraps
from typing import Annotated, Literal, TypedDict

import anyio
import jsonschema
import pytest
from pydantic import BaseModel, Field

import toolcrib
from toolcrib.library.functions import FunctionTool, function_tool


class Issue(BaseModel):
    title: str
    labels: list[str] = []


@dataclass
class Point:
    x: int
    y: int = 0


def schema(function, **options) -> dict:
    found = function_tool(function, **options).definition["inputSchema"]
    jsonschema.Draft202012Validator.check_schema(found)
    return found


def called(tool: FunctionTool, arguments: dict) -> object:
    positional, named = tool.bind(arguments)
    return tool.function(*positional, **named)


def test_annotations_become_types_and_defaults_the_optional_parameters():
    def create(owner: str, count: int = 3, state: Literal["open", "closed"] = "open", tags: list[str] | None = None):
        """Create an issue."""

    tool = function_tool(create)
    assert tool.name == "create"
    assert tool.definition == {
        "name": "create",
        "description": "Create an issue.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "owner": {"type": "string"},
                "count": {"type": "integer", "default": 3},
                "state": {"type": "string", "enum": ["open", "closed"], "default": "open"},
                "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}], "default": None},
            },
            "required": ["owner"],
            "additionalProperties": False,
        },
    }


def test_a_function_without_parameters_or_docstring_is_a_tool_too():
    def ping():
        pass

    found = function_tool(ping).definition
    assert found == {
        "name": "ping",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    }


GOOGLE = """Find flights.

    Only direct ones.

    Args:
        origin (str): Where it starts,
            as an IATA code.
        day: The day.
            Note: in local time.

    Returns:
        What was found.
    """
NUMPY = """Find flights.

    Only direct ones.

    Parameters
    ----------
    origin : str
        Where it starts,
        as an IATA code.
    day
        The day.
        Note: in local time.

    Returns
    -------
    What was found.
    """
SPHINX = """Find flights.

    Only direct ones.

    :param str origin: Where it starts,
        as an IATA code.
    :param day: The day.
        Note: in local time.
    :type day: date
    :returns: What was found.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_a_docstring_describes_the_tool_and_its_parameters(text: str):
    def flights(origin: str, day: date):
        pass

    flights.__doc__ = text
    found = function_tool(flights).definition
    assert found["description"].startswith("Find flights.\n\nOnly direct ones.\n\n")
    assert "What was found." in found["description"]
    assert "IATA" not in found["description"]
    assert {name: each["description"] for name, each in found["inputSchema"]["properties"].items()} == {
        "origin": "Where it starts, as an IATA code.",
        "day": "The day. Note: in local time.",
    }


def test_a_docstring_that_only_looks_like_one_with_parameters_stays_whole():
    def parse(text: str):
        """Parse arguments.

        Args: are separated by spaces.
        """

    assert function_tool(parse).definition["description"] == "Parse arguments.\n\nArgs: are separated by spaces."


def test_a_field_describes_a_parameter_before_the_docstring_does():
    def read(path: Annotated[str, Field(description="From the root.", max_length=9)], depth: int = 1):
        """Read a file.

        Args:
            path: Ignored.
            depth: How far down.
        """

    properties = schema(read)["properties"]
    assert properties["path"] == {"description": "From the root.", "maxLength": 9, "type": "string"}
    assert properties["depth"]["description"] == "How far down."


def test_arguments_become_what_is_annotated():
    def file(issue: Issue, at: Point, day: date, /, *, note: str = "none", **more: int):
        return issue, at, day, note, more

    tool = function_tool(file)
    given = {"issue": {"title": "a"}, "at": {"x": 1}, "day": "2026-11-23", "extra": 7}
    assert called(tool, given) == (Issue(title="a"), Point(1), date(2026, 11, 23), "none", {"extra": 7})


def test_names_that_a_model_could_not_have_are_parameters_like_others():
    def odd(schema: str, copy: bool, _private: int = 0, model_config: str = "m", self: int = 1):
        return schema, copy, _private, model_config, self

    assert called(function_tool(odd), {"schema": "s", "copy": True}) == ("s", True, 0, "m", 1)


def test_wrong_arguments_are_named_without_their_values():
    def pay(amount: int, to: str, day: date):
        pass

    tool = function_tool(pay)
    with pytest.raises(toolcrib.BadRequest) as refused:
        tool.bind({"amount": "s3cret", "to": "me", "extra": 1})
    text = str(refused.value)
    assert text.startswith("Invalid arguments for pay: ")
    assert all(part in text for part in ("amount: ", "day: Missing", "extra: "))
    assert "s3cret" not in text


def test_methods_partials_objects_and_coroutines_are_functions_too():
    class Mailer:
        def send(self, to: str) -> str:
            """Send a mail."""
            return f"sent to {to}"

        async def __call__(self, to: str) -> str:
            return to

    async def fetch(url: str) -> str:
        """Fetch a page."""
        return url

    def scale(value: int, factor: int) -> int:
        return value * factor

    send = function_tool(Mailer().send)
    assert (send.name, send.is_async) == ("send", False)
    assert called(send, {"to": "ann"}) == "sent to ann"
    assert function_tool(fetch).is_async
    assert function_tool(Mailer(), name="mail").is_async
    double = function_tool(partial(scale, factor=2), name="double")
    assert "description" not in double.definition  # that of `partial` is about `partial`
    assert called(double, {"value": 4}) == 8
    assert anyio.run(partial(function_tool(fetch).function, "u")) == "u"


def test_name_and_description_can_be_given():
    def f():
        """Say nothing."""

    found = function_tool(f, name="greet", description="Say hello.").definition
    assert (found["name"], found["description"]) == ("greet", "Say hello.")


def test_a_default_that_json_has_not_is_left_out():
    missing = object()

    def get(key: str, default: object = missing):
        return default

    tool = function_tool(get)
    assert "default" not in tool.definition["inputSchema"]["properties"]["default"]
    assert called(tool, {"key": "k"}) is missing


def test_typed_dicts_and_models_inside_are_part_of_the_schema():
    class Filter(TypedDict, total=False):
        state: str

    def search(issue: Issue, how: Annotated[int, Field(ge=1)] = 1):
        pass

    found = schema(search)
    assert found["properties"]["issue"] == {"$ref": "#/$defs/Issue"}
    assert found["$defs"]["Issue"]["properties"]["title"]["type"] == "string"


class Answering:
    """A callable object."""

    def __call__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda: 1, "has no name of its own"),
        (partial(lambda: 1), "A lambda has no name of its own.* set its __name__, or wrap it in a def"),
        (Answering(), "of the type Answering has no name of its own.* set its __name__"),
        ({"name": "x"}, "dict is no function, .* Only ToolSearch takes definitions"),
        ("x", "str is no function"),
        (lambda *values: 1, r"\*values have no names; make it one parameter with a list"),
        (lambda out=object: 1, None),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_what_to_change(function, says):
    if says is None:
        assert function_tool(function, name="f").definition["inputSchema"]["properties"]["out"] == {}
        return
    with pytest.raises(toolcrib.BadRequest, match=says):
        function_tool(function, **({"name": "f"} if "values" in says else {}))


def test_a_partial_has_the_name_and_docstring_of_its_function():
    def power(base: int, exponent: int) -> int:
        """Raise a number to a power.

        Args:
            base: The number.
        """
        return base**exponent

    found = function_tool(partial(partial(power), exponent=2)).definition
    assert (found["name"], found["description"]) == ("power", "Raise a number to a power.")
    assert found["inputSchema"]["properties"]["base"] == {"type": "integer", "description": "The number."}


@pytest.mark.parametrize("function", [lambda: 1, partial(Answering()), Answering()])
def test_what_gets_a_name_can_be_a_tool(function):
    function.__name__ = "one"
    assert function_tool(function).name == "one"


def test_an_annotation_that_means_nothing_to_json_is_refused_by_name():
    class Connection:
        pass

    def query(connection: Connection, text: str):
        pass

    def later(value):
        pass

    later.__annotations__["value"] = "NotThere"

    says = (
        r"function query cannot be a tool: pydantic has no schema for its parameter connection \(Connection\); give it"
    )
    with pytest.raises(toolcrib.BadRequest, match=says) as refused:
        function_tool(query)
    with pytest.raises(toolcrib.BadRequest, match="its signature cannot be read: name 'NotThere' is not defined"):
        function_tool(later)
    assert "model_config" not in str(refused.value)


class Mailbox:
    def send(self, to: str) -> str:
        return to

    @staticmethod
    def check(address: str) -> str:
        return address


def test_a_method_without_its_object_is_refused_with_what_to_give():
    for method in (Mailbox.send, str.upper):
        with pytest.raises(toolcrib.BadRequest, match=r"without its object; give that of one, such as"):
            function_tool(method)
    for method in (Mailbox().send, Mailbox.check, "a".upper):
        function_tool(method)


def test_what_only_repeats_a_name_is_in_no_part_of_the_schema():
    class Address(BaseModel):
        street_name: str
        town: Annotated[str, Field(title="City or town")]

    def move(to: Address, before: list[Address]):
        pass

    found = schema(move)
    assert found["$defs"]["Address"] == {
        "type": "object",
        "properties": {"street_name": {"type": "string"}, "town": {"type": "string", "title": "City or town"}},
        "required": ["street_name", "town"],
    }


def test_the_outermost_callable_decides_whether_it_is_async():
    async def fetch(url: str) -> str:
        return url

    @wraps(fetch)
    def blocking(url: str) -> str:
        return url

    @wraps(blocking)
    async def awaiting(url: str) -> str:
        return url

    class Fetcher:
        async def __call__(self, url: str) -> str:
            return url

    assert not function_tool(blocking).is_async
    assert not function_tool(Fetcher, name="made").is_async
    assert function_tool(awaiting).is_async
    assert function_tool(partial(Fetcher()), name="part").is_async
    assert function_tool(partial(partial(fetch), url="u"), name="part").is_async
