"""The command of a client for the conformance suite: ``connect.py SOCKET URL``."""

import json
import os
import socket
import sys

path, url = sys.argv[-2:]
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(path)
    wanted = {
        "context": os.environ.get("MCP_CONFORMANCE_CONTEXT", ""),
        "scenario": os.environ.get("MCP_CONFORMANCE_SCENARIO", ""),
        "url": url,
    }
    connection.sendall(json.dumps(wanted).encode() + b"\n")
    code = connection.recv(1)
sys.exit(0 if code == b"0" else 1)
