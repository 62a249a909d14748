"""Reports of any records: tables, figures and one self-contained page. A report reads records and nothing else."""
