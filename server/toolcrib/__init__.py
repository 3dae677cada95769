"""toolcrib: one MCP server in front of all of a person's MCP servers and skills.

What a program may import stands in ``__all__``. Each name is loaded when it is first used (PEP 562): a client waits for
its first answer while this module is imported, and needs none of them.
"""

TYPE_CHECKING = False  # as type checkers know it: importing it from `typing` would take most of the time
if TYPE_CHECKING:
    from toolcrib.base.errors import (
        BadRequest,
        Busy,
        CallTimeout,
        ConfigError,
        ConnectionLost,
        DownstreamError,
        LoginNeeded,
        NotConfirmed,
        StartFailed,
        StartRefused,
        StoreError,
        ToolcribError,
        Unavailable,
        UnknownSkill,
        UnknownTool,
    )
    from toolcrib.library.crib import Crib, open  # noqa: A004 - toolcrib.open
    from toolcrib.library.hits import ToolHit
    from toolcrib.library.results import CallResult, SearchResult, ToolInfo
    from toolcrib.library.search import ToolSearch
    from toolcrib.library.skills import CribSkills, SkillContent, SkillInfo

__version__ = "0.1.0"

__all__ = (
    "BadRequest",
    "Busy",
    "CallResult",
    "CallTimeout",
    "ConfigError",
    "ConnectionLost",
    "Crib",
    "CribSkills",
    "DownstreamError",
    "LoginNeeded",
    "NotConfirmed",
    "SearchResult",
    "SkillContent",
    "SkillInfo",
    "StartFailed",
    "StartRefused",
    "StoreError",
    "ToolHit",
    "ToolInfo",
    "ToolSearch",
    "ToolcribError",
    "Unavailable",
    "UnknownSkill",
    "UnknownTool",
    "__version__",
    "open",
)

_MODULES = {
    "CallResult": "library.results",
    "Crib": "library.crib",
    "CribSkills": "library.skills",
    "SearchResult": "library.results",
    "SkillContent": "library.skills",
    "SkillInfo": "library.skills",
    "ToolHit": "library.hits",
    "ToolInfo": "library.results",
    "ToolSearch": "library.search",
    "open": "library.crib",
}
"""Where a name is defined, below this package; the others are errors."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - as above

    value = getattr(import_module(f"{__name__}.{_MODULES.get(name, 'base.errors')}"), name)
    globals()[name] = value  # found without this function from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
