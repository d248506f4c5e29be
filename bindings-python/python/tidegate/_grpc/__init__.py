"""Private half of `tidegate.grpc`."""
