// Opening a device.
#include "device.h"

#include "cpu_info.h"

minfer_device::minfer_device(const minfer_cpu::Gates& gates)
    : pool(gates.threads, gates.threads <= minfer_cpu::allowed_cores()) {}
