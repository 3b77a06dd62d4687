"""What happens to every request on its way in and out; plain ASGI, so that streams stay streams."""
