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

# The best instruction set of this processor.
ISAS = native

# Kernels take minutes to compile, so what may be missing is looked for before.
refuse = { echo $(1) >&2; exit 1; }
is_default = $(filter file,$(origin $(1)))
kvmill_is_found:
	@$(KVMILL) --version >/dev/null || \
	  $(call refuse,'KVMILL is "$(KVMILL)"$(comma) which does not run; accepted: the command kvmill: install it$(comma) or add its directory to PATH')
ifneq ($(if $(libdir),,$(call is_default,KVMILL_CFLAGS)$(call is_default,KVMILL_LIBS)),)
	@$(PKG_CONFIG) --version >/dev/null || \
	  $(call refuse,'PKG_CONFIG is "$(PKG_CONFIG)"$(comma) which does not run; accepted: pkg-config$(comma) or set KVMILL_CFLAGS and KVMILL_LIBS')
	@$(PKG_CONFIG) --exists kvmill || \
	  $(call refuse,'$(PKG_CONFIG) does not find kvmill.pc; add PREFIX/lib/pkgconfig to PKG_CONFIG_PATH$(comma) or set KVMILL_CFLAGS and KVMILL_LIBS')
endif
	@echo '#include <kvmill.h>' | $(CC) $(KVMILL_CFLAGS) -fsyntax-only -x c - 2>/dev/null || \
	  $(call refuse,'kvmill.h is not found; accepted: kvmill installed$(comma) or KVMILL_CFLAGS with the folder of kvmill.h')

.PHONY: kvmill_is_found
