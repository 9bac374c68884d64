"""Commands that choose items of a level: head, tail, sample, shuffle, sort, filter."""
