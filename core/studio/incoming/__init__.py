"""Images that arrive automatically, through a watched folder or DICOM, and results that are sent to servers."""

KINDS = {"seg": "dicom-seg", "map": "dicom-map", "sr": "dicom-sr"}  # export formats that servers are sent, by kind
PASSWORD = "PMSACL_DICOMWEB_PASSWORD"  # the variable that a server's password is read from
