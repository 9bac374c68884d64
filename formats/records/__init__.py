"""Records in shards: MDS and WebDataset."""
