"""Config files to the model, or errors with file, line and hint."""
