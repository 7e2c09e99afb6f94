"""Power cuts under real clients, on real file systems: `__main__` is the scenario, the rest are its clients.

`transactions` writes and commits offsets exactly once, `sharing` reads in a share group.
"""
