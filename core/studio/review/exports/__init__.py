"""Exports of a study to files and folders, recorded in the audit trail, and imports of annotations."""
