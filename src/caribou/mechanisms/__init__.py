"""Where noise meets data: the only code between a private graph and a release."""
