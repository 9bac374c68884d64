"""What `--json` prints: one TypedDict for each object, and the JSON Schemas made of them."""
