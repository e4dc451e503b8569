"""A study in one zip: its rows, images, runs, cluster maps and audit trail, for moving it between installations.

A bundle keeps names and times as they are, so it is not for publishing. Whoever brings one in treats it as data from a
stranger: known names and columns only, new ids for everything, limits on sizes, nothing stored before all is checked.
"""

from core.studio.review.exports.bundle.checks import BadBundle, Limits
from core.studio.review.exports.bundle.read import import_bundle, verify_foreign
from core.studio.review.exports.bundle.write import BundleWriter, export_bundle

__all__ = ["BadBundle", "BundleWriter", "Limits", "export_bundle", "import_bundle", "verify_foreign"]
