"""Python clients for the conformance suite's driver protocol; each module runs as a separate process."""
