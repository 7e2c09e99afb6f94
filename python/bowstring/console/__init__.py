"""Serves the console: web pages that show a cluster, Bowstring's or Apache Kafka's."""
