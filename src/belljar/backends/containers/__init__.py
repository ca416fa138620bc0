"""Sandboxes that are containers of Docker or Podman: any image, sealed through the engine's API alone."""
