"""Commands that choose, rename and combine whole tensors: select, drop, rename, merge."""
