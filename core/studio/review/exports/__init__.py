"""Exports from the review room, each to a folder or a file and recorded in the audit trail; imports of annotations."""
