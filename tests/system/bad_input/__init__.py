"""What a broker does with input that no client should send: Kafka's error or a closed connection, and on it goes."""
