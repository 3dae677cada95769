"""Writing the index of tools for the first time, with SQLite's full-text table kept beside it and without.

CPU time, because what else the machine does is not part of it. Once as one server's list, once as the lists of all
servers one after the other, each in a transaction of its own, as they come in at a first start.
"""

import gc
import tempfile
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import catalog
from measuring import Finding, Target, interleaved, median, options, say, show
from toolcrib.base.model import Ingest
from toolcrib.catalog.arguments import SchemaChecker
from toolcrib.catalog.index import TOOLS_SCHEMA, ToolIndex
from toolcrib.catalog.ingest import Shaping, ingest
from toolcrib.config.loading import load
from toolcrib.storage.store import Store

TARGET = Target(1.3, of="ratio")


def taken_in(lists: Mapping[str, catalog.Tools], folder: Path) -> list[Ingest]:
    """Return each server's tools as they are stored."""
    settings = load(catalog.write_config(folder, lists), {"HOME": str(folder)}, folder)
    shaping = Shaping.from_settings(settings, SchemaChecker(50, time.monotonic).fits)
    return [ingest(settings.servers[key], tools, shaping) for key, tools in lists.items()]


def as_one(ingests: Sequence[Ingest]) -> Ingest:
    """Return the tools of all servers as if one server had listed them."""
    return Ingest("one", tuple(replace(each, server="one") for one in ingests for each in one.records), ())


def cpu_ms(ingests: Sequence[Ingest], fts: Literal["auto", "off"]) -> float:
    """Return how long it takes to write these lists into a new index."""
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "tools.db", TOOLS_SCHEMA, fts=fts) as store:
        index = ToolIndex(store)
        gc.collect()
        began = time.process_time()
        for each in ingests:
            index.replace(each, config_fingerprint="benchmark", now=0.0, era=None)
        return (time.process_time() - began) * 1000


def measure(given: Namespace, folder: Path) -> None:
    lists, note = catalog.tool_lists(given.catalog)
    ingests = taken_in(catalog.enlarged(lists, given.size), folder)
    found: list[Finding] = []
    for what, chosen in (("one list", [as_one(ingests)]), (f"{len(ingests)} lists", ingests)):
        say(f"{given.size:,} tools, {what} ...")
        runs = interleaved(given.repeat, {fts: partial(cpu_ms, chosen, fts) for fts in ("auto", "off")})
        ratio = median([with_it / without for with_it, without in zip(runs["auto"], runs["off"], strict=True)])
        base = median(runs["off"])
        found.append(
            Finding(f"index of {given.size:,} tools written, {what}", "ms", ratio * base, base, "without FTS5", TARGET)
        )
    show(found, f"{note}; CPU time, medians of {given.repeat} pairs", as_json=given.json)


def main() -> None:
    parser = options(__doc__, repeat=9)
    catalog.add_option(parser)
    parser.add_argument("--size", type=int, default=3000, metavar="N", help="how many tools (default: 3000)")
    with tempfile.TemporaryDirectory() as folder:
        measure(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
