"""How a server's names read to a client: as the server has them, or behind toolcrib."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one server; ``server`` is its key in the config, empty for a direct connection."""

    server: str = ""

    @property
    def _tool(self) -> str:
        return f"{self.server}__" if self.server else ""

    @property
    def _resource(self) -> str:
        return f"toolcrib://servers/{self.server}/" if self.server else ""

    def public(self, tool: str) -> str:
        return self._tool + tool

    def public_uri(self, uri: str) -> str:
        return self._resource + uri

    def private(self, said: str) -> str:
        """Return a text with the names that the server has."""
        return said.replace(self._tool, "").replace(self._resource, "") if self.server else said
