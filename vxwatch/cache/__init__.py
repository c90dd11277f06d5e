"""Keys of tasks, and the index of the files they are made of."""

SCHEMA = 2
"""Moves whenever the same task on the same files shall get another key."""
