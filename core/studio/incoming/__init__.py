"""Images that come in by themselves, by a watched folder or DICOM, and results that are sent to servers."""

KINDS = {"seg": "dicom-seg", "map": "dicom-map", "sr": "dicom-sr"}  # what servers are sent, by its form
PASSWORD = "PMSACL_DICOMWEB_PASSWORD"  # the variable that a server's password is read from
