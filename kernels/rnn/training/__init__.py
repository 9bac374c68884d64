"""Loss, optimizer, classifier, epochs."""
