"""Which paths are proved, and by which record: the record's schema, accepted records, and the gate that reads them."""
