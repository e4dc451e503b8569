"""Exports of a study to files and folders, each recorded in the audit trail, and imports of annotations."""
