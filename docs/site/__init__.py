"""Makes the site of the pages in docs/: docs/build.sh."""
