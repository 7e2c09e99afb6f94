"""Keys, passwords and log-ins of TLS and SASL, for the broker and for clients.

Imported by: clients.*, engine.network.
May import: protocol, _native.tls.
"""
