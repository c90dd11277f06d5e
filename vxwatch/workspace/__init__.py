"""Which projects there are, and what git says about their files."""
