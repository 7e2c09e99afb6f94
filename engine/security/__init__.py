"""Decides who a client is (SASL), and who may do what: access control lists and super users (KIP-11).

Imported by: api, broker, migration.
May import: _native.access, _native.tls, configs, engine, metadata, protocol, security.
"""
