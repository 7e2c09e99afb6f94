"""Runs Python clients under measurement, one per process: `python -m bench.clients NAME BROKER TOPIC
RECORDS`.
"""
