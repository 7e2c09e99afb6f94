"""The whole broker's storage on a simulated disk: random work, random faults, kills and power cuts.

`steady.py` runs a real broker without its threads and sockets, `model.py` knows what it has promised, `work.py` is
what is done with it, `lives.py` takes power and puts it back. `python -m tests.simulation.storage` (`make simulate`)
tries as many seeds as one likes; test_storage.py some hundreds.
"""
