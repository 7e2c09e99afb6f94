"""Python clients under measurement, one a process: `python -m bench.clients NAME BROKER TOPIC RECORDS`."""
