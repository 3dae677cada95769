"""The programs from npm that slow tests use: where they are, and how each is started."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOW_TO_INSTALL = "needs programs from npm: run scripts/install-node-tools, or set TOOLCRIB_NODE_DIR"


@dataclass(frozen=True, slots=True)
class Npm:
    """The folder that ``scripts/install-node-tools`` made. Each method returns a whole command line."""

    folder: Path

    @property
    def node(self) -> Path:
        return self.folder / "node_modules" / "node" / "bin" / "node"

    def everything(self, transport: str = "stdio") -> list[str]:
        """Return the reference server with something of each feature: ``stdio``, ``sse`` or ``streamableHttp``.

        The HTTP ones take their port from the variable ``PORT``.
        """
        return self._run("server-everything/dist/index.js", transport)

    def filesystem(self, *folders: Path) -> list[str]:
        return self._run("server-filesystem/dist/index.js", *map(str, folders))

    def memory(self) -> list[str]:
        """Return the knowledge graph server; it writes to the file that ``MEMORY_FILE_PATH`` names."""
        return self._run("server-memory/dist/index.js")

    def inspector(self, *args: str) -> list[str]:
        """Return Inspector as a client: ``COMMAND … stdio --method tools/list`` or ``--server-url URL …``."""
        return self._run("inspector/clients/launcher/build/index.js", "--cli", *args, "--format", "json", "-q")

    def conformance(self, *args: str) -> list[str]:
        """Return the conformance suite: ``server --url URL --suite all --spec-version 2026-07-28``."""
        return self._run("conformance/dist/index.js", *args)

    def conformance_01(self, *args: str) -> list[str]:
        """Return the suite of the 0.1 line, which knows no revision after 2025-11-25."""
        return self._run("../conformance-0.1/dist/index.js", *args)

    def chromium(self, script: Path) -> list[str]:
        """Return a script that drives a headless Chromium, but for the address that it is to open."""
        return [str(self.node), str(script), str(self.folder)]

    def _run(self, script: str, *args: str) -> list[str]:
        return [str(self.node), str(self.folder / "node_modules" / "@modelcontextprotocol" / script), *args]


def entry(command: list[str], **more: Any) -> dict[str, Any]:
    """Return ``command`` as an entry of ``mcpServers``."""
    return {"command": command[0], "args": command[1:], **more}


def find(environ: Mapping[str, str]) -> Npm | None:
    """Return the programs, or ``None`` where they are not installed."""
    cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(environ.get("TOOLCRIB_NODE_DIR") or cache / "toolcrib-ci" / "node")
    return Npm(folder) if (folder / "installed.json").exists() else None
