"""Measures Bowstring beside Apache Kafka in the same run, and the native code in micro benches."""
