"""Runs declared pipelines: a TOML file as a Spark Structured Streaming job.

`declaration` defines the content of a file, `job` creates streaming queries from it, `check` verifies it
without running it. The command line is `bowstring pipeline`.

Imported by: cli.
May import: clients, clients.admin, clients.config, spark.
"""
