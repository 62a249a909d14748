"""Reports: tables, figures and one self-contained page, from records only."""
