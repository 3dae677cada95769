"""``toolcrib login`` and ``logout``, with servers on loopback; the browser is played by a program."""

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from starlette.responses import JSONResponse, RedirectResponse

from cli.command_line import Run
from fakes.oauth_server import Guarded, guarded_server
from toolcrib.cli.output import print_text

SECRETS = ("access-", "refresh-")


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    with guarded_server() as server:
        yield server


class Browser:
    """What a person does with an address. ``opened`` are the addresses; ``pages`` what came in the end."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.pages: list[str] = []
        self.before = ""

    def open(self, address: str) -> bool:
        self.opened.append(address)
        with httpx2.Client(follow_redirects=True, timeout=20, trust_env=False) as client:
            redirect = parse_qs(urlsplit(address).query)["redirect_uri"][0]
            if self.before:  # what somebody else sends to the listener first
                self.pages.append(f"{client.get(f'{redirect}?{self.before}').status_code}")
            self.pages.append(client.get(address).text)
        return True


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> Browser:
    played = Browser()
    monkeypatch.setattr("webbrowser.open", played.open)
    return played


@pytest.fixture
def config(tmp_path: Path, guarded: Guarded) -> Path:
    return written(tmp_path, guarded.url)


def written(folder: Path, url: str, auth: Any = None) -> Path:
    file = folder / "toolcrib.json"
    section: dict[str, Any] = {"cache_dir": str(folder / "cache"), "state_dir": str(folder / "state")}
    if auth is not None:
        section["servers"] = {"web": {"auth": auth}}
    file.write_text(json.dumps({"mcpServers": {"web": {"url": url}}, "toolcrib": section}))
    return file


def test_a_person_logs_in_and_sees_what_the_server_has(run: Run, config: Path, guarded: Guarded, browser: Browser):
    code, out, err = run("login", "web", "--config", str(config))
    assert code == 0, err
    assert out.startswith("Logged in to web by http://127.0.0.1:")
    assert "It has 3 tools; `toolcrib tools list --server web` shows them." in out
    assert browser.opened[0] in err
    assert "toolcrib has received the answer" in browser.pages[0]
    assert len(browser.opened) == 1
    [client] = guarded.provider.clients.values()
    assert client.client_name == "toolcrib"
    assert not any(secret in out + err for secret in SECRETS)
    code, out, err = run("call", "web__echo", '{"text": "a"}', "--config", str(config))
    assert code == 0, err
    assert guarded.asked("/register") == 1


def test_taking_over_servers_says_who_is_logged_in_and_what_to_run_where_nobody_is(
    run: Run, config: Path, tmp_path: Path, guarded: Guarded, browser: Browser
):
    own = {"url": "https://own.example/mcp", "headers": {"Authorization": "Bearer canary"}}
    entries = {"web": {"url": guarded.url}, "wiki": {"url": "https://wiki.example/mcp"}, "own": own}
    file = tmp_path / "client.json"
    file.write_text(json.dumps({"mcpServers": {**entries, "git": {"command": "git-mcp"}}}))
    take_over = ("import", str(file), "--config", str(config))
    code, out, _ = run(*take_over, "--yes")
    assert code == 0
    for name in ("web", "wiki"):
        assert f"{name}: nobody is logged in; if it wants that: toolcrib login {name}\n" in out
    assert "login own" not in out
    assert "login git" not in out
    assert "If wiki wants a login: `toolcrib login wiki`." in out.splitlines()
    assert run("login", "web", "--config", str(config))[0] == 0
    _, out, _ = run(*take_over)
    assert "web: logged in by http://127.0.0.1:" in out
    assert "wiki: nobody is logged in" in out
    found = {each["key"]: each for each in json.loads(run(*take_over, "--json")[1])["servers"]}
    assert found["web"]["login"]["by"].startswith("http://127.0.0.1:")
    assert [found[name]["may_log_in"] for name in ("web", "wiki", "own", "git")] == [True, True, False, False]
    assert [found[name]["login"] for name in ("wiki", "own", "git")] == [None] * 3


def test_status_and_doctor_tell_who_is_logged_in_and_what_mends_a_server_that_nobody_is(
    run: Run, config: Path, guarded: Guarded, browser: Browser
):
    _code, out, _err = run("doctor", "--config", str(config))
    assert "server web: it requires a login, and there is none or it has expired\n           toolcrib login web" in out
    assert "logged in" not in run("status", "--config", str(config))[1]
    assert run("login", "web", "--config", str(config))[0] == 0
    _code, out, _err = run("status", "--config", str(config))
    assert f"    logged in by {guarded.url.removesuffix('/mcp')}, until 20" in out
    assert "refreshed automatically" in out
    shown = json.loads(run("status", "--json", "--config", str(config))[1])["servers"][0]["login"]
    assert (shown["as"], shown["scope"], shown["renews"]) == (None, "read", True)
    assert not any(secret in str(shown) for secret in SECRETS)
    assert "server web: 3 tools" in run("doctor", "--config", str(config))[1]


def test_a_server_that_is_added_and_wants_a_login_says_so(run: Run, guarded: Guarded):
    code, _out, err = run("add", "web", guarded.url, "--config", str(Path.cwd() / "new.json"))
    assert code == 1
    assert "it requires a login by OAuth). Run `toolcrib login web` in a terminal." in err


def test_a_second_login_uses_the_same_registration(run: Run, config: Path, guarded: Guarded, browser: Browser):
    for _ in range(2):
        assert run("login", "web", "--config", str(config))[0] == 0
    assert guarded.asked("/register") == 1
    assert len({parse_qs(urlsplit(each).query)["redirect_uri"][0] for each in browser.opened}) == 1


def test_logging_out_revokes_and_forgets(run: Run, config: Path, guarded: Guarded, browser: Browser):
    assert run("login", "web", "--config", str(config))[0] == 0
    code, out, err = run("logout", "web", "--config", str(config))
    assert (code, out, err) == (0, "Logged out of web; its tokens are revoked and deleted.\n", "")
    assert not guarded.provider.refresh_tokens
    assert len(guarded.provider.revoked) == 2
    assert run("logout", "web", "--config", str(config))[1] == "There is no login to web.\n"


def test_a_login_that_cannot_be_revoked_is_forgotten_and_that_is_said(
    run: Run, config: Path, guarded: Guarded, browser: Browser
):
    assert run("login", "web", "--config", str(config))[0] == 0
    guarded.answers["/revoke"] = JSONResponse({}, 500)
    code, out, err = run("logout", "web", "--config", str(config))
    assert (code, err) == (0, "They were not revoked: 127.0.0.1 refused (HTTP 500).\n")
    assert out == "Logged out of web; its tokens are deleted.\n"


def test_what_others_send_to_the_listener_changes_nothing(run: Run, config: Path, guarded: Guarded, browser: Browser):
    browser.before = "code=forged&state=guessed"
    code, out, err = run("login", "web", "--config", str(config))
    assert code == 0, err
    assert browser.pages[0] == "400"
    assert "Logged in" in out


def test_a_no_is_told(run: Run, config: Path, guarded: Guarded, browser: Browser):
    guarded.provider.refuses_person = True
    code, out, err = run("login", "web", "--config", str(config))
    assert (code, out) == (1, "")
    assert "web is not logged in: the login was denied: access_denied" in err
    assert "The login was denied" in browser.pages[0]


def test_all_logs_in_where_that_is_wanted(run: Run, config: Path, guarded: Guarded, browser: Browser):
    assert run("login", "--all", "--config", str(config))[0] == 0
    assert len(browser.opened) == 1
    guarded.provider.expire()
    code, out, _err = run("login", "--all", "--config", str(config), "--json")
    assert code == 0
    assert len(browser.opened) == 1, "it is renewed, and nobody is asked"
    [shown] = json.loads(out)
    assert shown["login"]["renews"]
    assert sorted(shown["tools"]) == ["web__echo", "web__progress", "web__sleep"]


def test_all_leaves_out_servers_that_want_no_login(run: Run, config: Path, guarded: Guarded, browser: Browser):
    guarded.open_methods = (b"initialize", b"server/discover", b"tools/", b"notifications/")
    code, out, err = run("login", "--all", "--config", str(config))
    assert (code, out, err) == (0, "web requires no login.\n", "")
    assert not browser.opened


class Terminal:
    """A terminal at which somebody sees the printed address. ``answers`` gives the lines that they type then."""

    def __init__(self) -> None:
        read_fd, write_fd = os.pipe()
        self.stdin, self._keys = os.fdopen(read_fd), os.fdopen(write_fd, "wb", buffering=0)
        self.answers: Callable[[str], list[str]] = lambda _address: []
        self._print = print_text
        self._acting = list[threading.Thread]()

    def note(self, text: str, **options: Any) -> None:
        self._print(text, **options)
        for line in text.splitlines():
            if "/authorize?" in line:
                self._acting.append(threading.Thread(target=self._act, args=(line.strip(),)))
                self._acting[-1].start()

    def _act(self, address: str) -> None:
        for line in self.answers(address):
            self._keys.write(f"{line}\n".encode())

    def end(self) -> None:
        """Type the end of input, and wait until that is read."""
        for each in self._acting:
            each.join()
        self._keys.close()
        for each in threading.enumerate():
            if each.name == "typed lines":
                each.join()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    one = Terminal()
    monkeypatch.setattr("toolcrib.cli.login.print_text", one.note)
    monkeypatch.setattr("sys.stdin", one.stdin)
    yield one
    one.end()
    one.stdin.close()


def led_to(address: str) -> str:
    """Return where a browser elsewhere is led to."""
    with httpx2.Client(follow_redirects=False, trust_env=False) as client:
        return client.get(address).headers["location"]


def test_an_answer_can_be_given_by_hand(run: Run, config: Path, guarded: Guarded, browser: Browser, terminal: Terminal):
    def answers(address: str) -> list[str]:
        return ["http://127.0.0.1/callback?code=x&state=y", "", "  ", f"{led_to(address)}#_=_"]

    terminal.answers = answers
    code, _out, err = run("login", "web", "--no-browser", "--config", str(config))
    assert code == 0, err
    assert err.count("That is not the answer to this login") == 1
    assert not browser.opened
    assert guarded.provider.access_tokens


def test_an_answer_that_a_browser_here_brings_is_taken_though_nothing_is_pasted(
    run: Run, config: Path, guarded: Guarded, browser: Browser, terminal: Terminal
):
    def answers(address: str) -> list[str]:
        browser.open(address)
        return []

    terminal.answers = answers
    at_last = threading.Timer(20, terminal.end)  # where nothing but the end of input ends it
    at_last.start()
    code, _out, err = run("login", "web", "--no-browser", "--config", str(config))
    assert code == 0, err
    assert "toolcrib has received the answer" in browser.pages[0]
    assert not at_last.finished.is_set()
    at_last.cancel()


def test_the_end_of_input_gives_up(run: Run, config: Path, guarded: Guarded, browser: Browser, terminal: Terminal):
    terminal.end()
    code, _out, err = run("login", "web", "--no-browser", "--config", str(config))
    assert code == 1
    assert "web is not logged in: no answer was given" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("login",), "Name one server, or use --all."),
        (("login", "web", "--all"), "Name one server, or use --all."),
        (("login", "wed"), "There is no server 'wed' to log in to: did you mean web?"),
    ],
)
def test_what_cannot_be_logged_in_to_is_named(run: Run, config: Path, arguments: tuple[str, ...], said: str):
    code, _out, err = run(*arguments, "--config", str(config))
    assert code == 1
    assert said in err


def test_nobody_logs_in_where_the_config_has_a_token(run: Run, tmp_path: Path, guarded: Guarded):
    file = written(tmp_path, guarded.url, {"type": "none"})
    code, _out, err = run("login", "web", "--config", str(file))
    assert code == 1
    assert "web does not use a login" in err


def test_a_client_that_the_config_names_is_not_registered(run: Run, tmp_path: Path, guarded: Guarded, browser: Browser):
    from mcp.shared.auth import OAuthClientInformationFull

    redirect = "http://127.0.0.1:{port}/callback"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    guarded.provider.clients["mine"] = OAuthClientInformationFull.model_validate(
        {"client_id": "mine", "client_secret": "s3cr3t-mine", "redirect_uris": [redirect.format(port=port)]}
        | {"token_endpoint_auth_method": "client_secret_basic", "scope": "read write"}
    )
    auth = {"client_id": "mine", "client_secret": "s3cr3t-mine", "redirect_port": port, "scopes": ["read"]}
    code, out, err = run("login", "web", "--config", str(written(tmp_path, guarded.url, auth)))
    assert code == 0, err
    assert not guarded.asked("/register")
    assert "s3cr3t-mine" not in out + err
    guarded.provider.expire()
    code, out, err = run("call", "web__echo", '{"text": "a"}', "--config", str(tmp_path / "toolcrib.json"))
    assert code == 0, err
    assert guarded.provider.refreshes == 1


def test_what_a_login_lacks_is_asked_for_besides_what_it_has(
    run: Run, config: Path, guarded: Guarded, browser: Browser
):
    assert run("login", "web", "--config", str(config))[0] == 0
    assert run("login", "web", "--scope", "write", "--config", str(config))[0] == 0
    asked = [parse_qs(urlsplit(each).query)["scope"][0].split() for each in browser.opened]
    assert asked == [["read"], ["read", "write"]]


def test_a_client_metadata_document_stands_for_a_registration(
    run: Run, tmp_path: Path, guarded: Guarded, browser: Browser
):
    from mcp.shared.auth import OAuthClientInformationFull

    url = "https://me.example.com/client.json"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    redirects = {"redirect_uris": [f"http://127.0.0.1:{port}/callback"], "scope": "read write"}
    guarded.provider.clients[url] = OAuthClientInformationFull.model_validate(
        {"client_id": url, "token_endpoint_auth_method": "none", **redirects}
    )
    guarded.answers[METADATA] = metadata(guarded, client_id_metadata_document_supported=True)
    auth = {"client_metadata_url": url, "redirect_port": port}
    code, _out, err = run("login", "web", "--config", str(written(tmp_path, guarded.url, auth)))
    assert code == 0, err
    assert parse_qs(urlsplit(browser.opened[0]).query)["client_id"] == [url]
    assert not guarded.asked("/register")


# -- what a server names -------------------------------------------------------------------------

METADATA = "/.well-known/oauth-authorization-server"


def metadata(guarded: Guarded, **changes: Any) -> JSONResponse:
    origin = guarded.url.removesuffix("/mcp")
    return JSONResponse(
        {
            "issuer": origin,
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "registration_endpoint": f"{origin}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            **changes,
        }
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"issuer": "https://other.example"}, "issuer mismatch"),
        ({"registration_endpoint": "http://10.0.0.1/register"}, "is not fetched: it is neither https nor on this"),
        ({"registration_endpoint": "http://evil.example/register"}, "is not fetched: it is neither https nor on this"),
        ({"registration_endpoint": "https://a:b@127.0.0.1/x"}, "is not fetched: it contains a user name or password"),
    ],
)
def test_an_authorization_server_that_names_something_else_gets_nobody(
    changes: dict[str, Any], said: str, run: Run, guarded: Guarded, browser: Browser
):
    config = written(Path.cwd(), guarded.url)
    guarded.answers[METADATA] = metadata(guarded, **changes)
    code, _out, err = run("login", "web", "--config", str(config))
    assert code == 1
    assert said in err
    assert not browser.opened


@pytest.mark.parametrize("body", [b"x" * 3_000_000, b"\x00\xff" * 100, b"{}", b"[" * 100_000], ids=len)
def test_garbage_for_metadata_ends_in_words(body: bytes, run: Run, config: Path, guarded: Guarded, browser: Browser):
    from starlette.responses import Response

    for path in (METADATA, "/.well-known/openid-configuration", "/register", "/token"):
        guarded.answers[path] = Response(body, media_type="application/json")
    code, _out, err = run("login", "web", "--config", str(config))
    assert code == 1
    assert "web is not logged in: " in err
    assert "Traceback" not in err
    assert not browser.opened


def test_a_redirect_to_another_origin_is_not_followed(run: Run, config: Path, guarded: Guarded, browser: Browser):
    with guarded_server() as other:
        for path in (METADATA, "/.well-known/openid-configuration"):
            guarded.answers[path] = RedirectResponse(f"{other.url.removesuffix('/mcp')}{path}", 307)
        guarded.answers["/register"] = RedirectResponse(f"{other.url.removesuffix('/mcp')}/register", 307)
        code, _out, err = run("login", "web", "--config", str(config))
        assert code == 1
        assert "web is not logged in: 127.0.0.1 did not register toolcrib (HTTP 307)" in err
        assert not other.paths
    assert not browser.opened


def test_redirects_in_a_circle_end(run: Run, config: Path, guarded: Guarded, browser: Browser):
    for path in (METADATA, "/.well-known/openid-configuration", "/register"):
        guarded.answers[path] = RedirectResponse(path, 307)
    code, _out, _err = run("login", "web", "--config", str(config))
    assert code == 1
    assert guarded.asked("/register") == 6


def test_an_error_of_the_token_endpoint_tells_no_secret(
    run: Run, config: Path, guarded: Guarded, browser: Browser, caplog: pytest.LogCaptureFixture
):
    guarded.answers["/token"] = JSONResponse({"error": "s3cr3t code_verifier=abc", "access_token": 5}, 400)
    caplog.set_level("DEBUG")
    code, out, err = run("login", "web", "--config", str(config))
    assert code == 1
    assert "127.0.0.1 refused (HTTP 400)" in err
    assert "s3cr3t" not in out + err + caplog.text
