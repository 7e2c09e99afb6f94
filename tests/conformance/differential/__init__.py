"""The same conversations with Apache Kafka and with Bowstring, and every field of every answer compared."""
