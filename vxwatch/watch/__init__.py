"""Changed paths, settled and judged by content."""
