"""Uses a temporary file and a lock between processes; fails where either does not work."""

import multiprocessing
import tempfile

with tempfile.TemporaryFile() as file:
    file.write(b"x")
with multiprocessing.Lock():
    print("works")
