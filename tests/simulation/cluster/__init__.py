"""Simulates a whole cluster: quorum, controller, replicas, group coordinators and clients, by a seed.

The cores are the shipped ones; logs are real ones on a medium that loses unsynced data. The work of the
reactors and the control thread around the cores is in `node`, `broker`, `plane` and `coordinator`.
"""
