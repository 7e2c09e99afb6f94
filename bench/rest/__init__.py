"""Measures the REST proxy beside a broker: produce streams, single records, and reads in every format."""
