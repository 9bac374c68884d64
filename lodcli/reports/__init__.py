"""The output of `--json`: one TypedDict for each object, and JSON Schemas made from them."""
