"""A study in one zip: its rows, images, runs, cluster maps and audit trail, for moving it between installations.

A bundle keeps names and times as they are, so it is not for publishing. Whoever brings one in treats it as data from a
stranger: known names and columns only, new ids for everything, limits on sizes, nothing stored before all is checked.
"""

from core.studio.review.bundle.foreign import verify_foreign
from core.studio.review.bundle.read import import_bundle
from core.studio.review.bundle.staging import BadBundle, Limits
from core.studio.review.bundle.write import BundleWriter, export_bundle

__all__ = ["BadBundle", "BundleWriter", "Limits", "export_bundle", "import_bundle", "verify_foreign"]
