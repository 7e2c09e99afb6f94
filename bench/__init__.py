"""Benches: Bowstring beside Apache Kafka in the same run, and micro benches of the native code."""
