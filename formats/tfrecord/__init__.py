"""TFRecord files of Example and SequenceExample."""
