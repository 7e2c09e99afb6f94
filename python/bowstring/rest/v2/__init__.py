"""Serves Confluent's REST API v2: brokers, topics, partitions, records, consumers.

Imported by: nobody; `rest.app` loads it by name.
May import: clients, clients.admin, clients.consumer, clients.producer, clients.registry, protocol, rest,
rest.records, web.
"""
