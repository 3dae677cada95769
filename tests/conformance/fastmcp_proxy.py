"""FastMCP's proxy over HTTP, for comparison. Run as ``python fastmcp_proxy.py URL PORT`` with FastMCP's Python."""

import sys

from fastmcp.server import create_proxy  # pyright: ignore[reportMissingImports] - may be absent

create_proxy(sys.argv[1]).run(transport="http", port=int(sys.argv[2]), show_banner=False)
