"""TLS 1.2 and 1.3 without I/O, by the system's OpenSSL 3, which is loaded with the first context.

Imported by: client, server.
May import: base.
"""
