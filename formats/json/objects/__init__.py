"""Objects of JSON as records: reading and writing."""
