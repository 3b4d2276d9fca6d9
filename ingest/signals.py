"""What other apps may listen to."""

from django.dispatch import Signal

# A report was stored. Sent once for each upload and engine, after the rows are committed; `report` is the StoredReport.
report_stored = Signal()
# An upload is about to be deleted for good, with its files; `upload` is the Upload.
upload_deleted = Signal()
