/* old_driver.c - libcuda.so.1 of a driver that is too old: all that the CUDA runtime asks of it before it gives up. */
int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);

int cuInit(unsigned flags) {
    (void)flags;
    return 0;
}

int cuDriverGetVersion(int *version) {
    *version = 11040;
    return 0;
}
