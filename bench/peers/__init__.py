"""The brokers a bench runs side by side, behind one interface, and the Java clients that drive them."""
