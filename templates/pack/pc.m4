libdir=${pcfiledir}
includedir=${pcfiledir}

Name: km_pack
Description: kvmill pack of km_kernel_count kernels
Version: km_version
Requires: kvmill
Cflags: -I${includedir}
Libs: -L${libdir} -l«»km_pack
