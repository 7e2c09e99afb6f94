"""Serves Confluent's REST API of a schema registry, version 8, as an ASGI application.

`registry_app.py` answers a request: `request_target.py` and `route_table.py` find what it is for, the modules
`…_routes.py` say what each route does, `access_rules.py` who may do it.

Imported by: registry.program.
May import: clients, clients.registry, protocol, registry, registry.operations, version, web.
"""
