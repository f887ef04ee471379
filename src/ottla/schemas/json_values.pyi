# Nothing here can be called from Python; compiled modules use the .pxd file.
