"""Who holds a port, for the message that says it is taken."""


def holder(port: int) -> tuple[int, str] | None:
    """Pid and name of the process that listens on this TCP port of the host.

    None when nobody does, or when it is another user's process: only root is told of those. It
    reads all of /proc, so ask it for a message, never in a loop.
    """
    import psutil

    for row in psutil.net_connections("tcp"):
        if row.status == psutil.CONN_LISTEN and row.laddr and row.laddr.port == port and row.pid:
            try:
                return row.pid, psutil.Process(row.pid).name()
            except psutil.NoSuchProcess:
                continue
    return None
