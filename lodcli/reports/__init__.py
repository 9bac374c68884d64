"""The output of `--json`: a TypedDict or dataclass for each object, and their JSON Schemas."""
