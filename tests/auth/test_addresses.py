"""Addresses that a server names: https, or this machine; into a private network only where the server is in one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.auth.fetching import is_loopback, is_private, is_shown, why_not_connected, why_not_fetched

PRIVATE = [
    "10.0.0.1",
    "127.0.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "239.1.2.3",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "ff02::1",
    "ff0e::1",
    "::ffff:127.0.0.1",
    "::ffff:a00:1",
    "64:ff9b::7f00:1",
    "64:ff9b::10.0.0.1",
    "2002:7f00:1::",
    "2002:a00:1::",
    "",
    "localhost",
    "0x7f.1",
]
PUBLIC = ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1"]


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_not_everybody_can_reach_is_private(address: str):
    assert is_private(address)
    assert why_not_connected([address], allows_private=False)
    assert not why_not_connected([address], allows_private=True)


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_of_the_internet_is_not_private(address: str):
    assert not is_private(address)
    assert not why_not_connected([address], allows_private=False)


def test_one_private_address_of_a_host_spoils_all_of_them():
    assert why_not_connected(["1.1.1.1", "127.0.0.1"], allows_private=False)
    assert why_not_connected([], allows_private=True) == "has no address"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://auth.example.com/token", ""),
        ("https://auth.example.com:8443/token?x=1", ""),
        ("http://127.0.0.1:8000/token", ""),
        ("http://localhost/token", ""),
        ("http://[::1]:9/token", ""),
        ("http://auth.example.com/token", "neither https nor on this machine"),
        ("http://127.0.0.1.example.com/token", "neither https nor on this machine"),
        ("http://2130706433/token", "neither https nor on this machine"),
        ("http://0x7f.1/token", "neither https nor on this machine"),
        ("http://127.0.0.1@evil.example/token", "neither https nor on this machine"),
        ("https://user:pass@auth.example.com/token", "a user name or password"),
        ("javascript:alert(1)", "not a web URL"),
        ("file:///etc/passwd", "not a web URL"),
        ("ftp://host/x", "not a web URL"),
        ("https:///token", "not a web URL"),
        ("https://host:99999/", "not a web URL"),
        ("https://host/ x", "not a web URL"),
        ("https://host/\nx", "not a web URL"),
        ("https://höst/", "not a web URL"),
        (f"https://host/{'x' * 9000}", "not a web URL"),
        ("", "not a web URL"),
    ],
)
def test_only_https_and_this_machine_are_fetched(url: str, why: str):
    reason = why_not_fetched(url)
    assert (why in reason) if why else not reason


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///x",
        "https://h/`id`",
        "https://h/|x",
        'https://h/"x',
        "-h",
        "",
    ],
)
def test_what_is_no_plain_address_is_not_shown_to_a_browser(url: str):
    assert not is_shown(url)


def test_a_plain_address_is_shown():
    assert is_shown("https://auth.example.com/authorize?client_id=a&state=b%20c&scope=x+y#f")
    assert is_shown("http://auth.example.com/authorize")


@pytest.mark.parametrize(("host", "is_it"), [("LocalHost.", True), ("127.9.9.9", True), ("127.1", False), ("a", False)])
def test_a_host_is_this_machine_by_how_it_is_written(host: str, *, is_it: bool):
    assert is_loopback(host) is is_it


@given(st.text())
def test_no_text_makes_the_look_at_an_address_fail(text: str):
    for made in (text, f"https://{text}", f"http://[{text}]/"):
        assert isinstance(why_not_fetched(made), str)
        assert isinstance(is_shown(made), bool)
    assert isinstance(is_private(text), bool)
    assert isinstance(is_loopback(text), bool)
