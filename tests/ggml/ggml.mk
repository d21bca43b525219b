# Builds libggml.so, with only ggml's core and its CPU backend, for tests/ggml.test; and ggml's own test of backends.
#
#   make -f ggml.mk GGML=DIRECTORY [test-backend-ops]
#
# GGML: ggml's source tree.  ARCH: the folder of ggml-cpu/arch for this processor.
GGML =
ARCH = x86
OPTIMIZE = -O0
FLAGS = $(OPTIMIZE) -march=native -fPIC -w -D_GNU_SOURCE -DGGML_USE_CPU -I. -I$(GGML)/include -I$(GGML)/src -I$(GGML)/src/ggml-cpu

# sources DIRECTORY PATTERN... -- the C and C++ sources below GGML's DIRECTORY, as names of objects.
sources = $(patsubst $(GGML)/src/$1%,%.o,$(sort $(wildcard $(addprefix $(GGML)/src/$1,$2))))
CORE = $(call sources,,*.c *.cpp)
CPU = $(filter-out %/cpu-feats.cpp.o,$(call sources,ggml-cpu/,*.c *.cpp amx/*.cpp tiled/*.cpp $(addprefix arch/$(ARCH)/,*.c *.cpp)))
OBJECTS = $(CORE:%=core/%) $(CPU:%=cpu/%)

libggml.so: $(OBJECTS)
	$(CXX) -shared -Wl,-soname,$@ -Wl,--no-undefined -o $@ $(OBJECTS) -pthread -ldl -lm

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
