"""A producer under random work against brokers that fail at random; what they store follows Kafka's rules."""
