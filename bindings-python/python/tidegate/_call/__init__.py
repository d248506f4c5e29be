"""Calls under a policy, from begin to end, in threads and in event loops."""
