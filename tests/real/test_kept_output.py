"""Output that is kept until it is known whether it must be shown."""

import os
import subprocess
import sys

import pytest

from vxwatch.output.kept import IN_MEMORY, Kept


@pytest.mark.parametrize("size", [0, 10, IN_MEMORY, IN_MEMORY + 1, 3 * IN_MEMORY])
def test_it_gives_back_what_it_was_given(size: int) -> None:
    data = os.urandom(size)
    kept = Kept()
    for at in range(0, size, 50_001):
        kept.write(data[at : at + 50_001])
    assert b"".join(kept.pieces()) == data
    kept.close()


_ON_A_FULL_DISK = """\
import sys
from vxwatch.output.kept import Kept
kept, count = Kept(), 0
try:
    while True:
        kept.write(b"%06d\\n" % count * 1000)
        count += 1
except OSError as error:
    print(error.strerror)
whole = b"".join(b"%06d\\n" % number * 1000 for number in range(count))
print(b"".join(kept.pieces()) == whole)
"""


def test_a_full_disk_costs_nothing_that_was_taken(tmp_path: object) -> None:
    new = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    mount = 'mount -t tmpfs -o size=256k none "$TMPDIR" && exec "$@"'
    done = subprocess.run(
        [*new, "sh", "-c", mount, "sh", sys.executable, "-c", _ON_A_FULL_DISK],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "No space left on device\nTrue\n", done.stderr
