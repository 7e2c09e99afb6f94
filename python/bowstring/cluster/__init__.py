"""Starts clusters of processes on this machine, for tests and development.

Imported by: cli, demo, pytest_plugin.
May import: clients, engine.broker, engine.configs, engine.quorum, protocol, serve.
"""
