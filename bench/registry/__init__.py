"""Measures the schema registry and the REST proxy beside a broker, and beside Karapace's."""
