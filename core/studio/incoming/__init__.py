"""What comes in by itself, and what goes out to servers."""

KINDS = {"seg": "dicom-seg", "map": "dicom-map", "sr": "dicom-sr"}  # what servers are sent, by its form
PASSWORD = "PMSACL_DICOMWEB_PASSWORD"  # the variable that a server's password is read from
