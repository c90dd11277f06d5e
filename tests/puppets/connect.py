"""connect.py HOST PORT  says "connected", or the error, and exits 1 then."""

import socket
import sys

try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 10).close()
except OSError as error:
    print(error.strerror, flush=True)
    sys.exit(1)
print("connected")
