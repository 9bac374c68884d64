"""Files behind URLs, of which only the parts that are read are fetched."""
