"""The data plane: Cython extensions that run without the GIL."""
