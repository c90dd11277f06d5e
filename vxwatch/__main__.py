"""`python -m vxwatch` is `vx`."""

from vxwatch.cli import main

main()
