"""Helpers that several suites use, one file for each subject: served brokers, wire clients, batches, faults, waiting.

Helpers of a single suite are beside its tests, such as tests/simulation/disk.
"""
