"""Facts about hardware: devices, the networks that join them, and the catalogue of both."""
