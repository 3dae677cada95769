"""A server of the SDK that takes the tokens of an authorization server only: one tool, over streamable HTTP.

``python -m oauth.notes_server PORT ISSUER INTROSPECTION CLIENT SECRET``; it asks about each token, so a revoked one is
refused at once. ``PORT`` is that of its own URL, ``http://127.0.0.1:PORT/mcp``. It ends with its stdin.
"""

import sys

import httpx2
import uvicorn
from mcp.server import MCPServer
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings

from oauth.endings import end_with_stdin


class Introspection:
    """Asks the authorization server about a token (RFC 7662)."""

    def __init__(self, url: str, client: tuple[str, str], resource: str) -> None:
        self._url, self._client, self._resource = url, client, resource

    async def verify_token(self, token: str) -> AccessToken | None:
        async with httpx2.AsyncClient(trust_env=False) as http:
            answer = (await http.post(self._url, data={"token": token}, auth=self._client)).json()
        audience = answer.get("aud")
        if not answer.get("active") or self._resource not in (
            [audience] if isinstance(audience, str) else audience or []
        ):
            return None
        return AccessToken(
            token=token,
            client_id=answer["client_id"],
            scopes=answer.get("scope", "").split(),
            expires_at=answer.get("exp"),
            resource=self._resource,
            subject=answer.get("sub"),
        )


def main(port: int, issuer: str, introspection: str, client: tuple[str, str]) -> None:
    url = f"http://127.0.0.1:{port}/mcp"
    # As texts: as parsed addresses they would get a slash, and be those of another issuer.
    auth = AuthSettings.model_validate(
        {
            "issuer_url": issuer,
            "resource_server_url": url,
            "required_scopes": ["notes:read"],
            "validate_token_resource": True,
        }
    )
    server = MCPServer("notes", auth=auth, token_verifier=Introspection(introspection, client, url))

    @server.tool()
    def read_note(title: str) -> str:
        """Return a note."""
        return f"note {title}"

    uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=port, access_log=False)


if __name__ == "__main__":
    end_with_stdin()
    number, issuer_url, introspection_url, client_id, secret = sys.argv[1:]
    main(int(number), issuer_url, introspection_url, (client_id, secret))
