"""Types of the SDK's OAuth client (mcp 2.3) that its public modules use but do not export.

A minor release may move them, as what ``jsonrpc/sdk.py`` names.
"""

from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)

__all__ = [
    "AuthorizationCodeResult",
    "OAuthClientInformationFull",
    "OAuthClientMetadata",
    "OAuthMetadata",
    "OAuthToken",
]
