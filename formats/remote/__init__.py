"""Files behind URLs, of which only the requested parts are fetched."""
