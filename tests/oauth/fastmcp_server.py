# pyright: reportMissingImports=false
"""FastMCP with an authorization server of its own, in one process: a second make beside the SDK's and oidc-provider.

Runs in an environment of its own, because FastMCP brings its own version of the SDK: ``PYTHON -m oauth.fastmcp_server
PORT LASTS``. Whoever comes to its authorization page is logged in at once. It ends with its stdin.
"""

import sys

from fastmcp import FastMCP
from fastmcp.server.auth.auth import ClientRegistrationOptions, RevocationOptions
from fastmcp.server.auth.providers import in_memory

from oauth.endings import end_with_stdin


def main(port: int, lasts: int) -> None:
    in_memory.DEFAULT_ACCESS_TOKEN_EXPIRY_SECONDS = lasts
    provider = in_memory.InMemoryOAuthProvider(
        base_url=f"http://127.0.0.1:{port}",
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=["notes:read", "notes:write"], default_scopes=["notes:read"]
        ),
        revocation_options=RevocationOptions(enabled=True),
        required_scopes=["notes:read"],
    )
    server = FastMCP("notes", auth=provider)

    @server.tool
    def read_note(title: str) -> str:
        """Return a note."""
        return f"note {title}"

    server.run(transport="http", host="127.0.0.1", port=port, path="/mcp", show_banner=False)


if __name__ == "__main__":
    end_with_stdin()
    main(int(sys.argv[1]), int(sys.argv[2]))
