"""Methods that protect one edge: features, labels and split are public."""
