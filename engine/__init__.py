"""Runs the broker's control plane: pure cores without I/O, and thin asyncio shells around them.

Imported by: broker, engine.*, serve, service_manager, signals, supervised_child.
May import: protocol.
"""
