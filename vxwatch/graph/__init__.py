"""Which task waits for which, and what a change reaches."""
