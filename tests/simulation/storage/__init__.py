"""The whole broker's storage on a simulated disk: random work, random faults, kills and power cuts.

`one_thread_broker.py` runs a node alone without its threads and sockets, in the simulated time of
`inline_loop.py`. `model.py` holds its promises, `random_steps.py` changes it, `lives.py` cuts the power and
restores it. `python -m tests.simulation.storage` (`make simulate`)
tries any number of seeds; test_storage.py some hundreds.
"""
