"""The types of the SDK's OAuth client (mcp 2.3), which its public modules take and give but do not export.

Knows where they are; never knows a token. A minor release may move them, as what ``streams/sdk.py`` names.
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
