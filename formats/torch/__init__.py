"""torch.save files, read without torch and without unpickling."""
