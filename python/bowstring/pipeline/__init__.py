"""Declared pipelines: a TOML file that runs as a Spark Structured Streaming job.

`declaration` says what a file may hold, `job` makes streaming queries of it, `check` looks at it without
running it. The command line is `bowstring pipeline`.
"""
