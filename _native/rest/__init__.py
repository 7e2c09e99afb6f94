"""Text of the REST proxy: requests to records, outcomes and records to lines, without an object for each.

Imported by: nobody but Python.
May import: arrow, base, client, record, values.
"""
