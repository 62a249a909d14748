"""The commands of ``caribou``, one module per group."""
