"""What every format shares: interface, schema, options, errors, bounds; reading and writing."""
