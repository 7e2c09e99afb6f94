"""Clients for Bowstring and Apache Kafka: Producer, Consumer and Admin."""
