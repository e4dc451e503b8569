"""Exports from the review room to files and folders, recorded in the audit trail; imports of annotations."""
