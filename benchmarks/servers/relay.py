"""The least that can stand between a client and a server. Run as ``python relay.py COMMAND ARG...``.

It decodes each message, gives each request a number of its own, and passes it on: no SDK, no bounds, no policy.
"""

import os
import selectors
import subprocess
import sys
from itertools import count

from pydantic_core import from_json, to_json

CHUNK = 64 * 1024


class Lines:
    """What is read from one descriptor, line by line, and written to another."""

    def __init__(self, read_fd, write_fd, mapped):
        self.read_fd, self.write_fd, self.mapped = read_fd, write_fd, mapped
        self.rest = b""

    def pass_on(self):
        """Read what there is and pass it on; return whether there may be more."""
        chunk = os.read(self.read_fd, CHUNK)
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        for line in lines:
            data = to_json(self.mapped(from_json(line))) + b"\n"
            while data:
                data = data[os.write(self.write_fd, data) :]
        return bool(chunk)


def main():
    with subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        numbers, ids = count(1), {}

        def forth(message):
            if "id" in message and "method" in message:
                number = next(numbers)
                ids[number] = message["id"]
                message["id"] = number
            return message

        def back(message):
            if "id" in message and "method" not in message:
                message["id"] = ids.pop(message["id"])
            return message

        ways = selectors.DefaultSelector()
        for lines in (Lines(0, process.stdin.fileno(), forth), Lines(process.stdout.fileno(), 1, back)):
            ways.register(lines.read_fd, selectors.EVENT_READ, lines)
        while all(key.data.pass_on() for key, _ in ways.select()):
            pass


main()
