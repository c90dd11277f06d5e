"""Birth and death of every process."""
