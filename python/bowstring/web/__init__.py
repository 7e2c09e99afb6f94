"""Shares what HTTP programs over the clients need: serving, credentials, limits, access log, metrics.

uvicorn is imported only by `server` and `tls_server`, which `serving` imports late.

Imported by: broker_children, console, http_services, registry.api, registry.program, rest, rest.records,
rest.v2, rest.v3.
May import: clients, clients.admin, clients.config, protocol, security.
"""
