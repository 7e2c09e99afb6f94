"""A simulated disk: what reached the medium, what only the page cache had, and what a crash leaves of it."""
