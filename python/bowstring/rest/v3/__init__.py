"""Serves Confluent's REST API v3: clusters, brokers, topics, configs, partitions, groups, rules, records.

Imported by: nobody; `rest.app` loads it by name.
May import: clients, clients.admin, protocol, rest, rest.records, web.
"""
