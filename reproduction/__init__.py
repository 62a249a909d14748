"""The paper's evaluation (NDSS 2026): grids, records, the published tables as data, and the items of its report."""
