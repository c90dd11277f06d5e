"""Live reload: pages of a bridged server are told when a cycle was good, or what failed in it.

vx's side is `front`; the rest is the program that stands between browsers and the bridge.
"""
