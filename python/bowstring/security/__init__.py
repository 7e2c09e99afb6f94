"""Keys, passwords and log-ins of TLS and SASL, for the broker and for clients.

Imported by: cli, clients.*, console, engine.*, spark, web.
May import: distribution, protocol, _native.tls.
"""
