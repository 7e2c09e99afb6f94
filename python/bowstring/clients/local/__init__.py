"""Reads files of a broker on the same machine.

Imported by: consumer.
May import: _native.client, clients, net, protocol.
"""
