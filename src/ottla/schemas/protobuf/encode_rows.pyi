# Nothing here is for Python; the compiled modules see the .pxd beside this.
