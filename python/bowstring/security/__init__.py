"""Keys, passwords and log-ins of TLS and SASL, for the broker and for clients.

Imported by: nobody but Python.
May import: _native.tls.
"""
