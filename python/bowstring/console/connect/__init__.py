"""Clusters of Kafka Connect: their REST API, and what pages show of it."""
