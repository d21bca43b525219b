# Where kvmill is, for the Makefiles of the bindings, which set `here`.
#
# A Makefile that is part of an installation (`make install`, or the Python package) uses that one:
# its command, headers and library, wherever it has been moved.  In a source tree, or if a
# distribution has put these elsewhere, the command is the one in PATH, and pkg-config finds the
# rest.  KVMILL, KVMILL_CFLAGS and KVMILL_LIBS override both.
#
# SPDX-License-Identifier: Apache-2.0
prefix := $(if $(findstring /share/kvmill/bindings/,$(abspath $(here))/),$(abspath $(here)../../../..))
libkvmill := $(if $(prefix),$(firstword $(wildcard $(prefix)/lib*/libkvmill.so $(prefix)/lib*/*/libkvmill.so)))
libdir := $(if $(wildcard $(prefix)/bin/kvmill),$(if $(wildcard $(prefix)/include/kvmill.h),$(libkvmill:%/libkvmill.so=%)))
PKG_CONFIG = pkg-config
KVMILL = $(if $(libdir),$(prefix)/bin/kvmill,kvmill)
KVMILL_CFLAGS = $(if $(libdir),-I$(prefix)/include,$$($(PKG_CONFIG) --cflags kvmill))
KVMILL_LIBS = $(if $(libdir),-L$(libdir) -lkvmill -Wl$(comma)-rpath$(comma)$(libdir),\
  $$($(PKG_CONFIG) --libs kvmill) -Wl$(comma)-rpath$(comma)$$($(PKG_CONFIG) --variable=libdir kvmill))
comma := ,

# The instruction sets of this processor.
ISAS = $(shell $(KVMILL) isas | awk '$$4 == "yes" && $$1 != "scalar" {print $$1}' | paste -s -d , -)

# Comes before kernels are compiled, which may take minutes.
kvmill_is_found:
	@echo '#include <kvmill.h>' | $(CC) $(KVMILL_CFLAGS) -fsyntax-only -x c - 2>/dev/null || \
	  { echo 'kvmill.h is not found; accepted: kvmill installed, and PKG_CONFIG_PATH with the folder of its kvmill.pc, or' \
	    'KVMILL_CFLAGS and KVMILL_LIBS' >&2; exit 1; }

.PHONY: kvmill_is_found
