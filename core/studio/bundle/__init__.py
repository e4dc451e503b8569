"""A study in one zip: its rows, images, runs, cluster maps and audit trail, for moving it between installations.

A bundle keeps names and times as they are, so it is not for publishing. Whoever brings one in treats it as data from a
stranger: what this database holds alone, new numbers for everything, limits on sizes, nothing stored before all is
checked.
"""

from core.studio.bundle.pack import BundleWriter, Limits, export_bundle
from core.studio.bundle.read import import_bundle, verify_foreign

__all__ = ["BundleWriter", "Limits", "export_bundle", "import_bundle", "verify_foreign"]
