"""Ends a login: revokes its tokens at the authorization server (RFC 7009).

Knows the revocation endpoint; never knows what stays stored.
"""

from http import HTTPStatus

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    create_oauth_metadata_request,
    handle_auth_metadata_response,
    validate_metadata_issuer,
)
from pydantic import ValidationError

from toolcrib.base.errors import LoginFailed
from toolcrib.config.settings import ServerSettings
from toolcrib.jsonrpc.sdk_oauth import OAuthMetadata
from toolcrib.login.fetching import Fetcher
from toolcrib.login.providers import Kept, renewing_provider, server_address, settle_method
from toolcrib.login.store import LoginEntry


async def revoked(server: ServerSettings, entry: LoginEntry, fetcher: Fetcher) -> bool:
    """Revoke a stored login; return False if there is none, or the authorization server has no revocation.

    Raises:
        LoginFailed: the authorization server cannot be reached, or refuses.

    """
    login = await entry.read()
    if login.tokens is None or not login.record.issuer:
        return False
    context = renewing_provider(server, entry, login.record.issuer).context
    context.client_info = await Kept(server, entry, renews=False).get_client_info()
    try:
        context.oauth_metadata = await _metadata(server, login.record.issuer, fetcher)
    except (OAuthFlowError, ValidationError):
        raise LoginFailed("the authorization server has changed") from None
    metadata = context.oauth_metadata
    if metadata is None or metadata.revocation_endpoint is None or context.client_info is None:
        return False
    settle_method(context)
    tokens = {"refresh_token": login.tokens.refresh_token, "access_token": login.tokens.access_token}
    for kind, token in tokens.items():
        if token:
            data = {"token": token, "token_type_hint": kind, "client_id": context.client_info.client_id}
            data, headers = context.prepare_token_auth(data, {})
            request = httpx2.Request("POST", str(metadata.revocation_endpoint), data=data, headers=headers)
            response = await fetcher.fetch(request)
            if response.status_code != HTTPStatus.OK:
                raise LoginFailed(f"{request.url.host} refused (HTTP {response.status_code})")
    return True


async def _metadata(server: ServerSettings, issuer: str, fetcher: Fetcher) -> OAuthMetadata | None:
    """Return the metadata of an issuer, discovered as before any login."""
    for url in build_oauth_authorization_server_metadata_discovery_urls(issuer, server_address(server)):
        goes_on, metadata = await handle_auth_metadata_response(await fetcher.fetch(create_oauth_metadata_request(url)))
        if metadata:
            validate_metadata_issuer(metadata, issuer)
        if metadata or not goes_on:
            return metadata
    return None
