"""The whole broker's storage on a simulated disk: random work, random faults, kills and power cuts.

`steady.py` runs a real broker without its threads and sockets, `model.py` holds its promises, `work.py`
changes it, `lives.py` cuts the power and restores it. `python -m tests.simulation.storage` (`make simulate`)
tries any number of seeds; test_storage.py some hundreds.
"""
