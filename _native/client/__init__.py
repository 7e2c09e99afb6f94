"""What Bowstring's own clients do for each record, batch and request.

Imported by: nobody but Python.
May import: base, record, arrow, tls.
"""
