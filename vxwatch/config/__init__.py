"""Config files: what they may say (`schema`), and how they are read (`load`)."""
