"""Logs with staged tails against a plain model: random work, kills at any operation and store, full disks.

`model.py` is a list of batches, `home.py` the log directory and the remains of a killed process, `lives.py`
the steps. `python -m tests.simulation.staged` tries any number of seeds; test_staged_tails.py some hundreds.
"""
