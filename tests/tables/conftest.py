"""One small graph in every format, and no file in the user's cache."""

from engines_support import tables  # noqa: F401
from file_support import quiet_place, valid_files  # noqa: F401
