"""FastMCP's proxy over stdio. Run as ``python fastmcp_proxy.py COMMAND ARG...``, the server to stand in front of."""

import sys

from fastmcp.server import create_proxy  # pyright: ignore[reportMissingImports] - may be absent

create_proxy({"mcpServers": {"echo": {"command": sys.argv[1], "args": sys.argv[2:]}}}).run(
    transport="stdio", show_banner=False
)
