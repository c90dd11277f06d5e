"""Who owns what lives: the session, its cycles, tasks and servers."""
