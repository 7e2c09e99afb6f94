"""Runs the broker's control plane: pure cores without I/O, and thin asyncio shells around them.

Imported by: broker, cli, clients, clients.*, engine.*, serve, service_manager, signals, spark.
May import: nothing.
"""
