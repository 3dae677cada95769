"""What tests over HTTP share: an answer that comes at once does so on a busy machine, too."""

import pytest

from toolcrib.jsonrpc import sdk_http
from waiting import DEADLINE_S


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdk_http, "AT_ONCE_S", DEADLINE_S)
