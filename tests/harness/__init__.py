"""What the tests share: processes, leaks, ports, waiting, and workspaces to run vx in."""
