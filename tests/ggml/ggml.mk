# Builds libggml.so, with only ggml's core and its CPU backend, for tests/ggml.test; and ggml's own test of backends.
#
#   make -f ggml.mk GGML=DIRECTORY [test-backend-ops]
#
# GGML: ggml's source tree.  ARCH: the folder of ggml-cpu/arch for this processor.
GGML =
ARCH = x86
OPTIMIZE = -O0
FLAGS = $(OPTIMIZE) -march=native -fPIC -w -D_GNU_SOURCE -DGGML_USE_CPU -I. -I$(GGML)/include -I$(GGML)/src -I$(GGML)/src/ggml-cpu
CORE = ggml.c.o ggml-alloc.c.o ggml-quants.c.o ggml-backend.cpp.o ggml-backend-reg.cpp.o ggml-backend-dl.cpp.o ggml-backend-meta.cpp.o \
  ggml-threading.cpp.o
CPU = ggml-cpu.c.o quants.c.o ggml-cpu.cpp.o binary-ops.cpp.o unary-ops.cpp.o vec.cpp.o ops.cpp.o traits.cpp.o hbm.cpp.o repack.cpp.o tiled/tiled.cpp.o tiled/tiled-kernel.cpp.o \
  amx/amx.cpp.o amx/mmq.cpp.o arch/$(ARCH)/quants.c.o arch/$(ARCH)/repack.cpp.o
OBJECTS = $(CORE:%=core/%) $(CPU:%=cpu/%)

libggml.so: $(OBJECTS)
	$(CXX) -shared -Wl,-soname,$@ -o $@ $(OBJECTS) -pthread -ldl -lm

test-backend-ops: $(GGML)/../test-backend-ops.cpp libggml.so
	$(CXX) -std=gnu++17 -O0 -w -I$(GGML)/include -I$(GGML)/src -o $@ $< -L. -lggml -Wl,-rpath,$(CURDIR) -pthread

# Its CMakeLists.txt writes this.
ggml-version.h:
	printf '#define GGML_VERSION "test"\n#define GGML_COMMIT "test"\n' >$@
$(OBJECTS): ggml-version.h

core/%.c.o: $(GGML)/src/%.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(FLAGS) -c -o $@ $<
core/%.cpp.o: $(GGML)/src/%.cpp
	@mkdir -p $(@D)
	$(CXX) -std=gnu++17 $(FLAGS) -c -o $@ $<
cpu/%.c.o: $(GGML)/src/ggml-cpu/%.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(FLAGS) -c -o $@ $<
cpu/%.cpp.o: $(GGML)/src/ggml-cpu/%.cpp
	@mkdir -p $(@D)
	$(CXX) -std=gnu++17 $(FLAGS) -c -o $@ $<
