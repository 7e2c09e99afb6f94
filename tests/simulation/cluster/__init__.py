"""Simulates a whole cluster: metadata quorum, controller, replicas, group coordinators and clients, under one seed.

The cores are the shipped ones; logs are real ones on a medium that loses unsynced data. What the reactors and
the control thread do around the cores is here, in `node`, `broker`, `plane` and `coordinator`.
"""
