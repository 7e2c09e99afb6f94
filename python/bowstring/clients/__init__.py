"""Implements clients for Bowstring and Apache Kafka: Producer, Consumer and Admin.

Imported by: aio, audit, broker, broker_children, cli, clients.*, cluster, console, demo, exactly_once,
http_services, kernels, operations, pipeline, pytest_plugin, registry, registry.api, registry.program,
registry.store, rest, rest.records, rest.v2, rest.v3, schemas, search, spark, tables, tracing, values, web.
May import: distribution, protocol.
"""
