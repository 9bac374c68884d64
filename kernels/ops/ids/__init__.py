"""Token ids: erase, enumerate, CTC, edit distance."""
