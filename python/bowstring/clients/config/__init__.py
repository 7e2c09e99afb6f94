"""Maps settings of the clients from all their names.

Imported by: cli, clients.*, console, pipeline, spark, tables, web.
May import: clients, security.
"""
