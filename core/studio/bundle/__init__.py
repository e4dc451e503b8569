"""Exports a study as one zip file (rows, images, runs, cluster maps, audit trail), and imports it elsewhere.

A bundle contains names and times unchanged, so it is not suitable for publication. An import does not trust a bundle:
values must fit this database, all ids are replaced, sizes are limited, and nothing is stored before all is checked.
"""

from core.studio.bundle.pack import BundleWriter, Limits, export_bundle
from core.studio.bundle.read import import_bundle, verify_foreign

__all__ = ["BundleWriter", "Limits", "export_bundle", "import_bundle", "verify_foreign"]
