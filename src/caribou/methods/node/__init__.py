"""Methods that protect one node with its features, its label and all its edges."""
