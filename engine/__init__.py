"""Runs the broker's control plane: pure cores without I/O, and thin asyncio shells around them.

Imported by: broker, console_child, engine.*, serve, service_manager, signals.
May import: protocol.
"""
