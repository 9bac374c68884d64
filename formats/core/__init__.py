"""Common code of the formats: interface, schema, options, errors, limits, open and write."""
