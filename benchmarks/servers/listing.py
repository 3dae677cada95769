"""A stdio server that lists what stands in a file, byte for byte. Run as ``python -S listing.py FILE [SECONDS]``.

FILE holds the result of ``tools/list`` on one line; SECONDS it says nothing first. Standard library only: it starts in
some 30 ms.
"""

import json
import sys
import time
from pathlib import Path

INFO = {"name": "listing", "version": "1"}
HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": INFO}
DONE = {"content": [{"type": "text", "text": "done"}], "isError": False}
REFUSED = b'"error":{"code":-32601,"message":"Method not found"}'


def main():
    results = {
        "initialize": json.dumps(HANDSHAKE).encode(),
        "tools/list": Path(sys.argv[1]).read_bytes(),
        "tools/call": json.dumps(DONE).encode(),
    }
    time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" in message:
            result = results.get(message["method"])
            answer = REFUSED if result is None else b'"result":' + result
            sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":%b,%b}\n' % (json.dumps(message["id"]).encode(), answer))
            sys.stdout.buffer.flush()


main()
