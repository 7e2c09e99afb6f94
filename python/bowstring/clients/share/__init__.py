"""Implements ShareConsumer: reads records of share groups, and acknowledges each (KIP-932).

Imported by: aio, cli.
May import: _native.arrow, _native.record, arrow, clients, config, group, net, protocol.
"""
