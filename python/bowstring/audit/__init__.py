"""The audit of counts: compares how many records each tier of a pipeline has seen.

Imported by: cli.
May import: clients, clients.consumer, spark.
"""
