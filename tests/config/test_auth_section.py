"""How the config says that toolcrib logs in to a server, and what is wrong with that."""

import json
from pathlib import Path
from typing import Any

import pytest

from toolcrib.base.errors import ConfigError
from toolcrib.config.loading import load
from toolcrib.config.settings import Settings

URL = "https://mcp.example.com/mcp"


def loaded(folder: Path, auth: Any, entry: dict[str, Any] | None = None) -> Settings:
    config = {"mcpServers": {"web": entry or {"url": URL}}, "toolcrib": {"servers": {"web": {"auth": auth}}}}
    file = folder / "toolcrib.json"
    file.write_text(json.dumps(config))
    return load(file, {"HOME": str(folder), "SECRET": "s3cr3t-value"}, folder)


@pytest.mark.parametrize(
    "auth",
    [
        {},
        {"type": "none"},
        {"scopes": ["read"], "redirect_port": 8123},
        {"client_id": "me", "client_secret": "${SECRET}", "issuer": "https://auth.example.com"},
        {"client_metadata_url": "https://me.example.com/client.json"},
        {"type": "client_credentials", "client_id": "me", "client_secret": "${SECRET}"},
        {"type": "client_credentials", "client_id": "me", "private_key": "${SECRET}"},
    ],
)
def test_what_fits_together_is_taken(tmp_path: Path, auth: Any):
    [server] = loaded(tmp_path, auth).servers.values()
    assert server.options.auth is not None
    assert server.may_log_in is (auth.get("type") != "none")


@pytest.mark.parametrize(
    ("auth", "why"),
    [
        ({"type": "basic"}, "must be 'oauth', 'client_credentials' or 'none'"),
        ({"type": "client_credentials", "client_id": "me"}, "needs client_id, and client_secret or private_key"),
        ({"client_id": "me", "private_key": "key"}, "private_key is for client_credentials"),
        ({"client_secret": "s"}, "client_secret needs client_id"),
        ({"client_metadata_url": "https://me.example.com/"}, "with a path"),
        ({"client_metadata_url": "http://me.example.com/x"}, "must be an https address"),
        ({"issuer": "auth.example.com"}, "must be an https address"),
        ({"redirect_port": 0}, "greater than or equal to 1"),
        ({"tokens": []}, "is not a known key"),
    ],
)
def test_what_nobody_could_log_in_with_is_refused_with_the_reason(tmp_path: Path, auth: Any, why: str):
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, auth)
    assert why in str(caught.value)
    assert "toolcrib.servers.web.auth" in str(caught.value)


def test_a_login_and_a_token_of_the_config_do_not_go_together(tmp_path: Path):
    entry = {"url": URL, "headers": {"authorization": "Bearer x"}}
    with pytest.raises(ConfigError, match="because headers has Authorization"):
        loaded(tmp_path, {}, entry)
    with pytest.raises(ConfigError, match="is for servers with a url"):
        loaded(tmp_path, {}, {"command": "x"})
    [server] = loaded(tmp_path, {"type": "none"}, entry).servers.values()
    assert not server.may_log_in


def test_what_a_login_is_made_with_is_a_secret(tmp_path: Path):
    auth = {"type": "client_credentials", "client_id": "me", "client_secret": "${SECRET}"}
    settings = loaded(tmp_path, auth)
    [server] = settings.servers.values()
    assert "s3cr3t-value" in server.secrets
    assert "s3cr3t-value" not in repr(settings)
    assert settings.redactor.clean("its s3cr3t-value") == "its ***"


def test_another_login_makes_another_server_and_another_port_does_not(tmp_path: Path):
    def fingerprint(auth: Any) -> str:
        return loaded(tmp_path, auth).servers["web"].fingerprint

    assert fingerprint(None) != fingerprint({"client_id": "me"})
    assert fingerprint({"client_id": "me"}) == fingerprint({"client_id": "me", "redirect_port": 8123})
