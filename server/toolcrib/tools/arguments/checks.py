"""Validates a call's arguments against the tool's input schema: schemas parsed once, checked off the event loop.

Knows schemas by tool and the time limit of each kind of check; never knows who calls, or whether the call proceeds.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import anyio.to_thread

from toolcrib.base.cache import Recent
from toolcrib.base.json_values import compact
from toolcrib.base.model import JsonObject, Tool
from toolcrib.tools.arguments.schema_check import Misfit, SchemaChecker, is_kept
from toolcrib.tools.definitions.examples import shortest
from toolcrib.tools.index.rows import Card
from toolcrib.tools.index.tool_index import ToolIndex

_INLINE_CHECK_MS = 3.0
"""How long a check may block the event loop, in milliseconds; nearly all are done by then and need no worker thread."""
_SCHEMAS_KEPT = 128


class ArgumentChecks:
    """Input schemas and validation against them. ``deadline_ms`` bounds one check."""

    def __init__(self, index: ToolIndex, checker: SchemaChecker, deadline_ms: float) -> None:
        self._index, self._checker, self._deadline_ms = index, checker, deadline_ms
        # The fingerprint is part of the key, because the definition in a row may change.
        self._schemas = Recent[tuple[int, str], JsonObject](_SCHEMAS_KEPT)

    def schema(self, tool: Tool) -> JsonObject:
        """Return the indexed input schema of a tool; that of anything if its row is not the one in the catalog."""
        schema = self._known(tool)
        return {"type": "object"} if schema is None else schema

    async def check(self, tool: Tool, arguments: JsonObject) -> list[Misfit] | None:
        """Return the validation errors; None if they cannot be determined in time.

        It is tried for a few milliseconds on the event loop, then with the full deadline in a worker thread.
        """
        schema = self._known(tool)
        if schema is None:
            return []
        check = partial(self._checker.check, tool.fingerprint, schema, arguments)
        quick = check(budget_ms=_INLINE_CHECK_MS)
        return quick if quick is not None else await anyio.to_thread.run_sync(partial(check, self._deadline_ms))

    def _known(self, tool: Tool) -> JsonObject | None:
        key = tool.row, tool.fingerprint
        with suppress(KeyError):
            return self._schemas[key]
        schema = self._read_schema(tool)
        if schema is not None and is_kept(schema):
            self._schemas[key] = schema
        return schema

    def _read_schema(self, tool: Tool) -> JsonObject | None:
        # A row of another version may even be another tool's, which the caller may not know: the file may be a new one.
        definition = self._index.definitions([tool.row], {tool.row: tool.fingerprint}).get(tool.row)
        return None if definition is None else definition["inputSchema"]


def misfit_text(tool: Tool, misfits: Sequence[Misfit], shape: str) -> str:
    """Return a text for a model: each error with its path, and the expected shape of the arguments."""
    problems = "\n".join(f"- {misfit.path}: {misfit.message}" for misfit in misfits)
    return f"The arguments do not fit {tool.public_name}, so it was not called:\n{problems}\n{shape}"


def shape_text(definition: JsonObject, card: Card) -> str:
    """Return the expected shape of a tool's arguments: its input schema, and its shortest example, if any."""
    example = shortest(card.examples)
    shown = f"Input schema: {compact(definition['inputSchema'])}"
    return f"{shown}\nExample: {compact(example.args)}" if example else shown
