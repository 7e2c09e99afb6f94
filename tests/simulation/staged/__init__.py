"""Logs with staged tails against a plain model: random work, kills at any operation and store, full disks.

`model.py` is a list of batches, `home.py` the log directory and what a process that dies leaves of it, `lives.py` what
is done. `python -m tests.simulation.staged` tries as many seeds as one likes; test_staged_tails.py some hundreds.
"""
