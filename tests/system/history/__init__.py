"""Transactional clients in processes of their own, under kills and pauses, and a check of the history that they leave.

`life` leads clients and brokers, `client` is one client, `check` judges; `breaks` makes brokers wrong on purpose.
"""
