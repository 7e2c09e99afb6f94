"""The audit of counts: compares how many records each tier of a pipeline has seen.

Imported by: cli, console.
May import: clients, clients.consumer, spark.
"""
