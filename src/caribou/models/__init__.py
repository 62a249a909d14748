"""Models and how they are fitted: encoder, head, statistics of releases, private training."""
