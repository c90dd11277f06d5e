"""The dev loop of a workspace: watch, re-run what changed, keep servers up, leave nothing."""

__version__ = "0.1.0"
