"""The stat stamps that tell a file, link or directory from a later one at the same path.

They are evidence: what moves its content moves one of them, unless it does so within the tick
of the file system's clock (`content.older`). Loaded before anything else is, so next to nothing
is loaded here.
"""

TYPE_CHECKING = False  # as typing has it, which is not loaded
if TYPE_CHECKING:
    import os

Stamp = tuple[int, int, int, int, int]


def stamp_of(status: "os.stat_result") -> Stamp:
    """Size, modification and change time in nanoseconds, inode, mode."""
    return (
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
        status.st_mode,
    )
