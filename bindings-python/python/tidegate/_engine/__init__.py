"""An engine and what is kept beside it: settings, records, the store, the words of the numeric border."""
