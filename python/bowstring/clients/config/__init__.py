"""Maps settings of the clients from all their names.

Imported by: cli, clients.*, pipeline, spark, tables.
May import: clients, security.
"""
