"""The built-in tool that runs a program."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field, Strict

from toolcrib.base.model import JsonObject
from toolcrib.config.schema import ProgramsSection
from toolcrib.gateway.composition import Generation
from toolcrib.policy.requests import Request
from toolcrib.server.builtin.tool import ALWAYS_LOAD, Arguments, BuiltinTool, described, object_of

if TYPE_CHECKING:
    from toolcrib.gateway.programs import ProgramUseCases

_TOKENS_MIN = 100


class RunArguments(Arguments):
    """The arguments of ``tool_run``."""

    code: Annotated[str, Strict()]
    timeout_s: Annotated[float, Strict(), Field(gt=0)] | None = None
    max_tokens: Annotated[int, Strict(), Field(ge=_TOKENS_MIN)] | None = None


class RunProgram(BuiltinTool[RunArguments]):
    """Runs a program over tools. ``use_cases`` loads what runs it."""

    name: ClassVar[str] = "tool_run"
    arguments = RunArguments

    def __init__(self, use_cases: "Callable[[], Awaitable[ProgramUseCases]]", section: ProgramsSection) -> None:
        self._use_cases = use_cases
        # Without a person in between, it may do what the worst tool does that it may call.
        is_reading = section.writes == "never"
        hints: JsonObject = {"readOnlyHint": True} if is_reading else {"destructiveHint": True}
        self.definition = {
            "title": "Run a program",
            "description": _described(section),
            "inputSchema": object_of(
                {
                    "code": described("string", "Python"),
                    "timeout_s": {"type": "number"},
                    "max_tokens": {"type": "integer", "minimum": _TOKENS_MIN},
                },
                ["code"],
            ),
            "annotations": {**hints, "openWorldHint": True},
            **ALWAYS_LOAD,
        }

    @classmethod
    def offered_by(cls, generation: Generation) -> Self | None:
        """Return the tool where programs can run, unless the config disables it."""
        if generation.programs is None or not cls.is_offered_by(generation):
            return None
        return cls(generation.programs, generation.settings.toolcrib.programs)

    @staticmethod
    def is_offered_by(generation: Generation) -> bool:
        """Return whether programs can run, and the config disables neither them nor all that is ours but skills."""
        return generation.programs is not None and generation.settings.toolcrib.tool_search.enabled

    async def run(self, request: Request, given: RunArguments) -> JsonObject:
        """Run the program, and return its value and what it printed.

        Raises:
            NotRunnable: it cannot run as it is written.
            Busy: too many programs run.

        """
        use_cases = await self._use_cases()
        return await use_cases.run(request, given.code, timeout_s=given.timeout_s, max_tokens=given.max_tokens)


_WRITES = {
    "ask": "A person confirms what may write. ",
    "never": "Tools that may write cannot be called. ",
    "allow": "",
}


def _described(section: ProgramsSection) -> str:
    return (
        "Run Python over tools, for many calls or large results: only its last expression and prints come back.\n"
        "from tools import git__git_log  # names as found; other characters become _\n"
        "log = await git__git_log(repo_path='.')\n"
        "all = await parallel([f(x) for x in xs])  # built in, as search('...'), call('odd-name', {...}); "
        "raises ToolError\n"
        "A call returns whole what tool_search shows after ->: the declared structure without a sole {result} or "
        "{content}, else a str, also of JSON (json.loads) or a Python literal (ast.literal_eval).\n"
        "Has re, json, csv, datetime, math; no class inheritance, yield, async with, del, files, network. "
        f"{_WRITES[section.writes]}At most {section.calls} calls, {section.timeout_s:g} s."
    )
