"""toolcrib on real authorization servers: from a refusal to a call, renewed, revoked, and by two processes at once."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from e2e.crib import crib, environment, write_config
from e2e.npm import Npm
from oauth.rig import Browser, Rig, oidc_provider
from toolcrib.auth.keyring import NoKeyring
from toolcrib.auth.store import Login, TokenStore
from worlds import Client

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

RUN = "Run `toolcrib login notes"
ADDRESS = re.compile(r"^ +(https?://\S+)$")
COMBINATIONS = [("stdio", "legacy"), ("stdio", "modern"), ("http", "legacy"), ("http", "modern")]


@pytest.fixture
def config(rig: Rig, tmp_path: Path) -> Path:
    return write_config(tmp_path, {"notes": {"url": rig.url}}, state_dir="state")


def command(config: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "toolcrib", *arguments, "--config", str(config)]


def log_in(config: Path, browser: Browser, name: str = "notes") -> tuple[int, str]:
    """Run the command, have the address opened, and paste where the browser ends; return the code and what was said."""
    with subprocess.Popen(
        command(config, "login", name, "--no-browser"),
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        said = ""
        for line in process.stdout:
            said += line
            if found := ADDRESS.match(line):
                back = anyio.run(browser.log_in, found[1])
                process.stdin.write(f"{back}\n")
                process.stdin.close()
        return process.wait(60), said


async def logged_in(config: Path, browser: Browser, name: str = "notes") -> str:
    code, said = await anyio.to_thread.run_sync(log_in, config, browser, name)
    assert code == 0, said
    return said


async def kept(config: Path, rig: Rig, name: str = "notes") -> Login:
    return await TokenStore(config.parent / "state" / "tokens", NoKeyring()).entry(rig.url, name).read()


async def revoke(config: Path, rig: Rig, which: str, name: str = "notes") -> None:
    """Have a token of the login revoked at the authorization server: ``access_token`` or ``refresh_token``."""
    login = await kept(config, rig, name)
    assert login.client
    assert login.tokens
    client = {"client_id": login.client.client_id}
    if login.client.client_secret:
        client["client_secret"] = login.client.client_secret
    await anyio.to_thread.run_sync(rig.revoke, client, getattr(login.tokens, which))


async def note(client: Client, name: str = "notes") -> tuple[bool, str]:
    """Call the tool; return whether it failed, and what was said."""
    result = await client.tool_call(f"{name}__read_note", {"title": "one"})
    return bool(result.get("isError")), result["content"][0]["text"]


async def test_from_a_refusal_to_a_call_over_both_transports_and_in_both_eras(rig: Rig, config: Path):
    browser = Browser()
    async with crib("stdio", "legacy", config) as client:
        is_error, said = await note(client)
        assert is_error
        assert RUN in said
        said = await logged_in(config, browser)
        assert "Logged in to notes" in said
        assert "It has 1 tool;" in said
        # The one that was running all the time has noticed.
        assert await note(client) == (False, "note one")
    for transport, era in COMBINATIONS:
        async with crib(transport, era, config) as client:
            assert await note(client) == (False, "note one"), (transport, era)
    assert len(browser.opened) == 1
    login = await kept(config, rig)
    assert login.tokens
    for path in config.parent.rglob("*"):
        if path.is_file() and path.parent.name != "tokens":
            assert login.tokens.access_token.encode() not in path.read_bytes(), path


async def test_a_person_at_a_real_browser_logs_in_and_is_told_so_there(npm: Npm, tmp_path: Path):
    """Here ``toolcrib login`` opens the browser by itself, and takes the answer at its own address."""
    browser = npm.chromium(Path(__file__).with_name("chromium.mjs"))
    environ = {**environment(), "BROWSER": f"{shlex.join(browser)} %s", "TMPDIR": str(tmp_path)}
    tried = await anyio.run_process(browser, env=environ, check=False)
    if tried.returncode:
        pytest.skip(f"Chromium does not start on this machine: {tried.stderr.decode()[-500:]}")
    with oidc_provider(npm, tmp_path) as [rig]:
        config = write_config(tmp_path, {"notes": {"url": rig.url}}, state_dir="state")
        done = await anyio.run_process(command(config, "login", "notes"), env=environ, check=False)
        assert done.returncode == 0, done.stderr.decode()
        assert b"Logged in to notes" in done.stdout
        async with crib("stdio", "legacy", config) as client:
            assert await note(client) == (False, "note one")


async def test_a_token_that_ends_is_renewed_quietly_by_one_of_two_processes(rig: Rig, config: Path):
    if rig.told is None:
        pytest.skip("FastMCP has no way to end one token alone")
    await logged_in(config, Browser())
    async with crib("stdio", "legacy", config) as one, crib("stdio", "modern", config) as other:
        assert await note(one) == await note(other) == (False, "note one")
        for _ in range(5):
            before, happened = await kept(config, rig), rig.happened()
            assert before.tokens
            await anyio.to_thread.run_sync(rig.end, before.tokens.access_token)
            answers: list[tuple[bool, str]] = []

            async def ask(client: Client, answers: list[tuple[bool, str]] = answers) -> None:
                answers.append(await note(client))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, one)
                tasks.start_soon(ask, other)
            assert answers == [(False, "note one")] * 2
            new = rig.happened()[len(happened) :]
            assert [line for line in new if line.startswith(("grant", "refused"))] == ["grant refresh_token"]
            after = await kept(config, rig)
            assert after.tokens
            assert after.tokens.refresh_token != before.tokens.refresh_token


async def test_a_login_that_was_revoked_is_said_plainly_without_a_loop_and_mended_by_another(rig: Rig, config: Path):
    browser = Browser()
    await logged_in(config, browser)
    async with crib("stdio", "legacy", config) as client:
        assert await note(client) == (False, "note one")
        await revoke(config, rig, "refresh_token")
        login = await kept(config, rig)
        assert login.tokens
        if rig.told:
            await revoke(config, rig, "access_token")
        happened = rig.happened()
        for _ in range(3):
            is_error, said = await note(client)
            assert is_error
            assert RUN in said
            assert login.tokens.access_token not in said
        assert len([line for line in rig.happened()[len(happened) :] if line.startswith("refused")]) <= 1
        assert (await kept(config, rig)).tokens is None
        await logged_in(config, browser)
        assert await note(client) == (False, "note one")
    assert len(browser.opened) == 2


async def test_a_person_who_says_no_is_not_logged_in(npm: Npm, tmp_path: Path):
    with oidc_provider(npm, tmp_path) as [rig]:
        config = write_config(tmp_path, {"notes": {"url": rig.url}}, state_dir="state")
        code, said = await anyio.to_thread.run_sync(log_in, config, Browser(agrees=False))
        assert code == 1
        assert "notes is not logged in" in said
        assert "access_denied" in said
        assert (await kept(config, rig)).tokens is None


async def test_two_servers_with_one_provider_have_a_login_each(npm: Npm, tmp_path: Path):
    with oidc_provider(npm, tmp_path, servers=2) as [one, other]:
        config = write_config(tmp_path, {"notes": {"url": one.url}, "more": {"url": other.url}}, state_dir="state")
        await logged_in(config, Browser())
        async with crib("stdio", "legacy", config) as client:
            assert await note(client) == (False, "note one")
            is_error, said = await note(client, "more")
            assert is_error
            assert "toolcrib login more" in said
            await logged_in(config, Browser("joe"), "more")
            assert await note(client, "more") == (False, "note one")
            assert await note(client) == (False, "note one")
        tokens = {
            (await kept(config, rig, name)).tokens.access_token for rig, name in ((one, "notes"), (other, "more"))
        }
        assert len(tokens) == 2


async def test_logging_out_has_it_revoked_and_forgotten(rig: Rig, config: Path):
    await logged_in(config, Browser())
    login = await kept(config, rig)
    assert login.tokens
    said = await anyio.to_thread.run_sync(
        lambda: subprocess.run(
            command(config, "logout", "notes", "--json"), capture_output=True, text=True, check=True, env=environment()
        )
    )
    assert json.loads(said.stdout) == {"server": "notes", "was_logged_in": True, "revoked": True, "why_not": None}
    assert (await kept(config, rig)).tokens is None
    store = TokenStore(config.parent / "state" / "tokens", NoKeyring()).entry(rig.url, "notes")
    assert login.client
    await store.set_client_info(login.client)
    await store.set_tokens(login.tokens)
    async with crib("stdio", "legacy", config) as client:  # what was kept is of no more use to anybody
        is_error, said = await note(client)
        assert is_error
        assert RUN in said
