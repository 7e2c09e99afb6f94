"""Makes brokers wrong on purpose."""
