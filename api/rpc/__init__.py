"""The gRPC shell: the network's own services over the same queries as REST (spec section 4)."""
