"""Runs the brokers of a bench side by side behind one interface, and the Java clients that drive them."""
