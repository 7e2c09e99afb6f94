"""What Bowstring's own clients do for each record, batch and request.

Imported by: rest.
May import: base, record, arrow, tls.
"""
