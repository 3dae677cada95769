"""Addresses that a server names, of private networks and in every notation: no connection is made to any of them."""

import itertools
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from counts import count

from toolcrib.auth import fetching
from toolcrib.auth.fetching import open_fetcher
from toolcrib.base.errors import LoginFailed

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

HOSTS = (
    *("127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001", "0"),
    *("127.255.255.254", "0.0.0.0", "localhost", "LOCALHOST", "localhost.", "127.0.0.1.", "①②⑦.⓪.⓪.①", "127。0。0。1"),
    *(
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
    ),
    *(
        "[::127.0.0.1]",
        "[fe80::1%25lo]",
        "[fc00::1]",
        "[ff02::1]",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
    ),
    *("169.254.169.254", "2852039166", "0xa9fea9fe", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "255.255.255.255"),
    *("100.64.0.1", "[fe80::1]"),
    *("inner.example", "two.example", "mapped.example", "late.example", "none.example", "metadata.google.internal"),
)
FORMS = (
    "https://{host}:{port}/x",
    "http://{host}:{port}/x",
    "https://good.example@{host}:{port}/x",
    "https://{host}:{port}@good.example/x",
    "https://good.example#@{host}:{port}/",
    "https://good.example:80\\@{host}:{port}/",
    "https:{host}:{port}/x",
    "//{host}:{port}/x",
    "gopher://{host}:{port}/x",
    "https://{host}:{port}/%0d%0aHost: good.example",
)
NAMES: dict[str, list[list[str]]] = {
    "inner.example": [["10.0.0.1"]],
    "two.example": [["93.184.216.34", "127.0.0.1"]],
    "mapped.example": [["::ffff:127.0.0.1"]],
    "late.example": [["127.0.0.1"], ["93.184.216.34"]],
    "none.example": [[]],
    "metadata.google.internal": [["169.254.169.254"]],
    "good.example": [["192.0.2.1"]],
}
"""What names mean, look-up by look-up. 192.0.2.1 is an address for examples, and not one of the internet (RFC 5737)."""


@contextmanager
def sink() -> Iterator[tuple[int, list[object]]]:
    """Listen on this machine, on either kind of address; yield the port, and who has connected."""
    come = list[object]()
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:

        def accept() -> None:
            while True:
                try:
                    stream, peer = listener.accept()
                except OSError:
                    return
                come.append(peer)
                stream.close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1], come
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


async def test_no_address_of_a_private_network_is_connected_to(record_property, monkeypatch):
    looked_up = socket.getaddrinfo
    turns = {name: itertools.cycle(meanings) for name, meanings in NAMES.items()}

    def meant(host: str, port: int | None, **options: Any) -> list[Any]:
        if host not in turns:
            return looked_up(host, port, flags=socket.AI_NUMERICHOST if host != "localhost" else 0, **options)
        found = next(turns[host])
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port or 443)) for each in found]

    monkeypatch.setattr(fetching.socket, "getaddrinfo", meant)
    every = [form.replace("{host}", host) for form in FORMS for host in HOSTS]
    chosen = random.Random(7).sample(every, min(count("addresses"), len(every)))
    said = list[str]()
    with sink() as (port, come):
        async with open_fetcher(allows_private=False) as fetch:
            for url in (each.replace("{port}", str(port)) for each in chosen):
                with pytest.raises((LoginFailed, httpx2.InvalidURL)) as refused:
                    await fetch(httpx2.Request("GET", url))
                said.append(str(refused.value))
    record_property("count", len(chosen))
    record_property("worst", f"{len(come)} connections to {len(chosen)} addresses")
    assert come == []
    assert not [text for text in said if "did not answer" in text]  # nothing is waited for
    assert len(chosen) == count("addresses")
