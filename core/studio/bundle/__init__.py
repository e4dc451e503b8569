"""Exports a study as one zip (rows, images, runs, cluster maps, audit trail), and imports it in another installation.

A bundle contains names and times unchanged, so it is not for publishing. An import does not trust it: values must fit
this database, all ids are replaced, sizes are limited, and nothing is stored before everything has been checked.
"""

from core.studio.bundle.pack import BundleWriter, Limits, export_bundle
from core.studio.bundle.read import import_bundle, verify_foreign

__all__ = ["BundleWriter", "Limits", "export_bundle", "import_bundle", "verify_foreign"]
