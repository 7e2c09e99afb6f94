"""Tests input that no client should send: the broker answers Kafka's error or closes the connection, and keeps working."""
