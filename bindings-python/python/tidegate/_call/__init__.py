"""A call under a policy: how it begins, is carried out and ends, in threads and in event loops."""
