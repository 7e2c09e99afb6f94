"""Transactions of real clients, also while brokers are killed."""
