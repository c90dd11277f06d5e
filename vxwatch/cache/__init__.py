"""Keys of tasks, and the index of the files they are made of."""
