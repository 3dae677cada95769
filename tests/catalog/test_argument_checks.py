"""The schemas that arguments are checked against: those of the catalog's tools, also while newer ones are stored."""

import json
import time
from pathlib import Path

import pytest
from builders import World, listing, opened, record, replace

from toolcrib.base.model import ToolRecord
from toolcrib.catalog.arguments import ArgumentChecks, Read, SchemaChecker

pytestmark = pytest.mark.anyio


def taking(*parameters: str) -> ToolRecord:
    schema = {"type": "object", "required": [*parameters], "properties": {each: {} for each in parameters}}
    return record("a", "x", definition={"name": "x", "inputSchema": schema})


@pytest.fixture
def world(tmp_path: Path):
    with opened(tmp_path / "tools.db") as world:
        yield world


@pytest.fixture
def checks(world: World) -> ArgumentChecks:
    return ArgumentChecks(world.index, SchemaChecker(10_000, time.monotonic))


async def test_a_newer_schema_is_not_taken_for_that_of_the_catalog(world: World, checks: ArgumentChecks):
    [before] = world.listed(listing("a", taking("path"))).tools
    replace(world.index, listing("a", taking("number")))
    assert "number" not in json.dumps(checks.schema(before))
    assert await checks.read(before, {}) == Read({}, [])
    [after] = world.catalog().tools
    assert [each.path for each in (await checks.read(after, {})).misfits or ()] == ["arguments.number"]
    assert "number" in checks.schema(after)["properties"]


async def test_what_is_not_known_for_a_moment_is_known_again_after_it(world: World, checks: ArgumentChecks):
    [before] = world.listed(listing("a", taking("path"))).tools
    replace(world.index, listing("a", taking("number")))
    assert await checks.read(before, {}) == Read({}, [])
    [again] = world.listed(listing("a", taking("path"))).tools
    assert again.fingerprint == before.fingerprint
    assert "path" in checks.schema(again)["properties"]
    assert len((await checks.read(again, {})).misfits or ()) == 1
