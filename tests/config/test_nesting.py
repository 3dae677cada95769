"""toolcrib never starts itself."""

import pytest

from toolcrib.base.errors import StartRefused
from toolcrib.config.launching import refuse_nested, starts_toolcrib


@pytest.mark.parametrize(
    "line",
    [
        "toolcrib serve",
        "/opt/venv/bin/toolcrib serve",
        "C:\\venv\\Scripts\\toolcrib.exe serve",
        "uvx toolcrib",
        "uvx toolcrib@latest serve",
        "uvx --python 3.12 -q toolcrib[demo]==0.1 serve",
        "uvx --from toolcrib[demo] toolcrib serve",
        "uvx --from=toolcrib>=0.1 anything",
        "/usr/bin/uv tool run toolcrib",
        "uv run --with x toolcrib serve",
        "uv run -m toolcrib serve",
        "pipx run toolcrib",
        "pipx run --spec toolcrib==0.1 toolcrib serve",
        "python -m toolcrib serve",
        "python3.12 -X dev -u -m toolcrib",
        "py -3 -m toolcrib",
    ],
)
def test_a_command_that_starts_toolcrib_is_recognised(line: str):
    command, *args = line.split(" ")
    assert starts_toolcrib(command, args)


@pytest.mark.parametrize(
    "line",
    [
        "mcp-server-git --repository toolcrib",
        "uvx mcp-server-git --repository toolcrib",
        "uvx --from mcp-server-git mcp-server-git toolcrib",
        "uvx --with toolcrib mcp-server-git",
        "uvx toolcrib-other",
        "uvx --quiet",
        "uvx --python",
        "uvx",
        "uv pip install toolcrib",
        "uv run -m other",
        "uv tool",
        "pipx install toolcrib",
        "python toolcrib.py -m toolcrib",
        "python -m http.server toolcrib",
        "python -u",
        "python -m",
        "python",
        "npx toolcrib",
    ],
)
def test_other_commands_are_left_alone(line: str):
    command, *args = line.split(" ")
    assert not starts_toolcrib(command, args)


def test_a_toolcrib_started_by_a_toolcrib_refuses():
    with pytest.raises(StartRefused, match="started by another toolcrib"):
        refuse_nested({"TOOLCRIB_PARENT": "1"})
    refuse_nested({})
