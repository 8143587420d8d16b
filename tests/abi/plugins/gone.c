/* A library that a plugin is linked to and that the loader cannot find. */
int minfer_abi_gone(void) { return 0; }
