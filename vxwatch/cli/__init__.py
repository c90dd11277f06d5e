"""The vx command: wires, decides nothing."""
