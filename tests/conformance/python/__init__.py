"""The Python clients under the conformance suite's driver protocol; each module runs as a process of its own."""
