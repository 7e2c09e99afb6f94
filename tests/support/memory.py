"""This process's memory."""


def resident_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) << 10


def resident_slack():
    """Returns the memory that AddressSanitizer holds back after it was freed."""
    with open("/proc/self/maps") as maps:
        return 64 << 20 if "libasan" in maps.read() else 0
