"""Maps settings of the clients from all their names.

Imported by: cli, clients.*, console, pipeline, registry.store, spark, tables, web.
May import: clients, security.
"""
