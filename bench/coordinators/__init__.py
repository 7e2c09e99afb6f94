"""Loads for the coordinators of groups and transactions: thousands of members and producers in one thread.

They speak the protocol themselves, because a client library for each member would use up the processors.
Each runs in a process of its own (`python -m bench.coordinators`).
"""
