"""Pages to look at: self-contained HTML files without network or server, for people who decide before they read code."""
