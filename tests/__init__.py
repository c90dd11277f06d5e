"""The tests of vx: `unit` decide, `real` do, `cli` drive the installed program."""
