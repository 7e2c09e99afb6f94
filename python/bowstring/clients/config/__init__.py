"""Maps settings of the clients from all their names.

Imported by: cli, admin, consumer, producer, spark.
May import: clients.
"""
