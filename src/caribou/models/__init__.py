"""Models and how they are fitted: trainer, encoder, classifier, heads, likelihoods of releases, rows for private training."""
