"""What a task may touch, and the box that holds it to that."""
