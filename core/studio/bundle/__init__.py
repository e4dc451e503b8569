"""Exports a study as one zip file (a bundle of rows, images, runs, cluster maps and audit trail), and imports bundles.

A bundle contains names and times unchanged, so it is not suitable for publication. On import, values must fit this
database, all ids are replaced, sizes are limited, and nothing is stored until everything has been checked.
"""

from core.studio.bundle.pack import BundleWriter, Limits, export_bundle
from core.studio.bundle.read import import_bundle, verify_foreign

__all__ = ["BundleWriter", "Limits", "export_bundle", "import_bundle", "verify_foreign"]
