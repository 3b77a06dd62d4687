"""The gRPC shell: the network's own services over the same questions as REST (spec section 4)."""
