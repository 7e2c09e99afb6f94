"""A simulated disk that separates the medium from the page cache, and produces the possible results of a crash."""
