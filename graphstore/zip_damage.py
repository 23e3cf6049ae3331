"""What Python's own reader of zip archives raises of a damaged one, or of one it cannot read."""

from __future__ import annotations

import zipfile
import zlib

ZIP_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
