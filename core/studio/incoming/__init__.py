"""Receives images automatically, through watched folders or over DICOM, and sends results to DICOMweb servers."""

KINDS = {"seg": "dicom-seg", "map": "dicom-map", "sr": "dicom-sr"}  # export format of each kind of result that is sent
PASSWORD = "PMSACL_DICOMWEB_PASSWORD"  # environment variable with the password of a server
