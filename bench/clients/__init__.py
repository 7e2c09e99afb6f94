"""Python clients under measurement: `python -m bench.clients CLIENT BOOTSTRAP TOPIC RECORDS`, a process each."""
