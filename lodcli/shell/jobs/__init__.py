"""`--jobs`: commands that compute the shards of a dataset in several processes."""
