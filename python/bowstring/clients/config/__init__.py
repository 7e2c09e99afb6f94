"""Maps settings of the clients from all their names.

Imported by: cli, clients.*, spark.
May import: clients.
"""
